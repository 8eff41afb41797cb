"""Random hopping queries of joins, differences and anti joins, each over streams of its own."""

from __future__ import annotations

from random import Random

from penstock.engine.rows.types import SqlType
from penstock.optimizer.bind.bind import bind_query
from penstock.optimizer.bind.catalog import Catalog, ColumnDef, StreamDef
from penstock.optimizer.costs.statistics import Rates
from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.hopping.assign_modes import Pricer
from penstock.optimizer.hopping.estimate_flows import Estimates
from penstock.optimizer.hopping.hopping_cost import HoppingCosts
from penstock.optimizer.read.parse import parse_query
from penstock.optimizer.tree.logical import Join, Query, SetOperation, nodes_of

STREAMS = "abcdefgh"


class RandomQuery:
    """Draws one query; every relation in it has the columns k and v."""

    def __init__(self, random: Random, operators: int, differences: bool = True) -> None:
        self._random = random
        self._left = list(STREAMS)
        self._names = 0
        self._kinds: tuple[str, ...] = ("join", "join", "join", "except", "except all", "anti", "semi")
        if not differences:
            self._kinds = ("join",)
        hop = random.choice([1, 5, 10, 20])
        self.sql = f"{self.relation(operators)} HOP BY {hop} SECONDS"

    def relation(self, operators: int) -> str:
        random = self._random
        if operators == 0:
            window = random.choice([5, 10, 20, 40])
            return f"SELECT k, v FROM {self._left.pop(0)} [RANGE {window} SECONDS]"
        split = random.randint(0, operators - 1)
        left, right = self.relation(split), self.relation(operators - 1 - split)
        p, q = self._name(), self._name()
        one, two = (random.choice("kv") for _ in "ab")
        match random.choice(self._kinds):
            case "join":
                return (
                    f"SELECT {p}.k, {q}.v FROM ({left}) AS {p} JOIN ({right}) AS {q} ON {p}.{one} = {q}.{two}"
                )
            case "anti" | "semi" as kind:
                word = "NOT EXISTS" if kind == "anti" else "EXISTS"
                return (
                    f"SELECT {p}.k, {p}.v FROM ({left}) AS {p} "
                    f"WHERE {word} (SELECT 1 FROM ({right}) AS {q} WHERE {q}.{two} = {p}.{one})"
                )
            case kind:
                return f"SELECT * FROM ({left}) AS {p} {kind.upper()} SELECT * FROM ({right}) AS {q}"

    def _name(self) -> str:
        self._names += 1
        return f"p{self._names}"


def random_query(random: Random, operators: int, joins_only: bool = False) -> Query:
    """A drawn query, bound."""
    catalog = Catalog()
    columns = (
        ColumnDef("ts", SqlType.TIMESTAMP),
        ColumnDef("k", SqlType.BIGINT),
        ColumnDef("v", SqlType.BIGINT),
    )
    for name in STREAMS:
        catalog.add(StreamDef(name, columns, 0))
    return bind_query(parse_query(RandomQuery(random, operators, not joins_only).sql), catalog)


def random_prices(random: Random, query: Query, weights: Weights) -> Pricer:
    """Prices with drawn rates, numbers of keys, and shares that differences leave."""
    rates = Rates()
    for stream in STREAMS:
        rates.set(stream, 10 ** random.uniform(1, 4))
    keys = {(stream, column): 10 ** random.uniform(0, 5) for stream in STREAMS for column in "kv"}
    remains = {
        node.position: random.uniform(0.05, 0.95)
        for node in nodes_of(query.root)
        if isinstance(node, Join | SetOperation)
    }
    assert query.hop is not None
    estimates = Estimates(rates, query.hop.size_us, keys, remains).as_written(query.root)
    return Pricer(estimates, HoppingCosts(weights))
