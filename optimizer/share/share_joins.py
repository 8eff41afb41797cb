"""Which joins can share their state: each join in a normal form, in which equal means common.

Joins share if they read the same streams and the index serves the same condition, however it was written and
whichever stream came first. Windows, filters on either stream, filters on the pairs and what is selected may
differ: they are each query's own. Rows are kept by one measure of age on each side, time or place in the
stream: so windows must also be of the same kind there, RANGE or ROWS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

from penstock.engine.expressions.expression import Column, Expression, rewrite
from penstock.engine.plan.plan import (
    Between,
    CommonJoin,
    CommonManyJoin,
    CommonSide,
    JoinNode,
    ManyJoinNode,
    MemberNode,
    MemberSide,
    PlanNode,
    SideNode,
    SourceNode,
)
from penstock.engine.plan.plan_parts import map_inputs
from penstock.engine.rows.band import EQUALITY, Band
from penstock.optimizer.plan.choose_index import Indexes
from penstock.optimizer.rewrite.match_condition import EXACT

from .order_sides import order_sides

MOST_FORMS = 1_000  # of a join of a stream with itself, of which one is the normal one


@dataclass(frozen=True, slots=True)
class JoinForm:
    """Which joins a query may share: with an owner, those nobody else is in; else those of the same strategy
    and indexes, None where a query leaves them to the engine."""

    owner: str | None = None
    strategy: str | None = None
    indexes: Indexes | None = None

    @classmethod
    def of(cls, name: str, sharing: str, indexes: Indexes, usual: tuple[str, Indexes]) -> JoinForm:
        """That of a query; usual: strategy and indexes that the engine was told."""
        owner = name if sharing == "unshared" else None
        return cls(
            owner,
            None if sharing == usual[0] else sharing,
            None if indexes == usual[1] else indexes,
        )


def share_joins(node: PlanNode, form: JoinForm) -> PlanNode:
    """The plan with its joins taken from joins in common."""
    match node:
        case JoinNode():
            return share_join(node, form)
        case ManyJoinNode():
            return share_many(node, form)
        case _:
            return map_inputs(node, lambda part: share_joins(part, form))


def share_join(node: JoinNode, form: JoinForm) -> MemberNode:
    """A join as a member of what it has in common with others."""
    sources = node.left, node.right
    sides = tuple(
        over_stream(side, source)
        for side, source in zip((node.left_side, node.right_side), sources, strict=True)
    )
    pairs = list(dict.fromkeys(zip(sides[0].keys, sides[1].keys, strict=True)))
    band = None if node.condition is None else without_gaps(node.condition, node.left_side.keys)
    forms = []
    for swapped in (False, True):
        one, two = (sides[1], sides[0]) if swapped else (sides[0], sides[1])
        streams = [source.stream for source in sources if isinstance(source, SourceNode)]
        keys = [(b, a) if swapped else (a, b) for a, b in pairs]
        if band == EQUALITY:
            keys.sort(key=lambda pair: (spelled(pair[0]), spelled(pair[1])))
        names = streams[::-1] if swapped else streams
        indexes = form.indexes[::-1] if swapped and form.indexes is not None else form.indexes
        left = CommonSide(names[0], one.window.kind, tuple(a for a, _ in keys))
        right = CommonSide(names[1], two.window.kind, tuple(b for _, b in keys))
        condition = band.mirrored() if swapped and band is not None else band
        common = CommonJoin(left, right, condition, form.owner, form.strategy, indexes)
        members = tuple(MemberSide(side.window, side.predicate, side.columns) for side in (one, two))
        forms.append((normal_order(common), MemberNode(node, common, members, swapped)))
    return min(forms, key=lambda one: one[0])[1]


def share_many(node: ManyJoinNode, form: JoinForm) -> MemberNode:
    """A join of many streams as a member of what it has in common with others."""
    sides = [over_stream(side, source) for side, source in zip(node.sides, node.inputs, strict=True)]
    streams = [source.stream for source in node.inputs if isinstance(source, SourceNode)]
    keys = [
        sorted(zip(map(spelled, side.keys), side.keys, own, strict=True), key=lambda key: key[0])
        for side, own in zip(sides, node.variables, strict=True)
    ]

    def name(number: int) -> tuple[str, str, tuple[str, ...]]:
        return streams[number], sides[number].window.kind, tuple(text for text, _, _ in keys[number])

    types = {variable: (key,) for own in keys for _, key, variable in own}
    names = list(map(name, range(len(sides))))
    links = []
    for one in node.bands:
        band = without_gaps(one.band, types[one.left])
        links.append((one.left, one.right, bounds_of(band), bounds_of(band.mirrored())))
    forms = []
    own = [[variable for _, _, variable in one] for one in keys]
    for order in islice(order_sides(names, own, links), MOST_FORMS):
        known: dict[int, int] = {}  # variables by the order in which they come
        variables = tuple(
            tuple(known.setdefault(variable, len(known)) for _, _, variable in keys[number])
            for number in order
        )
        bands = [
            in_order(known[one.left], known[one.right], without_gaps(one.band, types[one.left]))
            for one in node.bands
        ]
        bands.sort(key=order_of_band)
        forms.append((variables, list(map(order_of_band, bands)), order, bands))
    variables, _, order, bands = min(forms, key=lambda one: one[:3])
    common = CommonManyJoin(
        tuple(CommonSide(streams[i], sides[i].window.kind, tuple(k for _, k, _ in keys[i])) for i in order),
        variables,
        tuple(dict.fromkeys(bands)),
        form.owner,
        form.strategy,
    )
    members = tuple(MemberSide(sides[i].window, sides[i].predicate, sides[i].columns) for i in order)
    return MemberNode(node, common, members, order=tuple(map(order.index, range(len(sides)))))


def in_order(left: int, right: int, band: Band) -> Between:
    """A band between two variables, the lesser number first."""
    return Between(left, right, band) if left < right else Between(right, left, band.mirrored())


def order_of_band(one: Between) -> tuple[object, ...]:
    return one.left, one.right, *bounds_of(one.band)


def bounds_of(band: Band) -> tuple[object, ...]:
    return str(band.low), band.low_closed, str(band.high), band.high_closed


def without_gaps(band: Band, keys: tuple[Expression, ...]) -> Band:
    """Of integers and times, `> 4` as `>= 5`; but `> 0` rather than `>= 1`, which reads as an order."""
    if len(keys) != 1 or keys[0].type not in EXACT:
        return band
    low = None if band.low is None else int(band.low) + (not band.low_closed)
    high = None if band.high is None else int(band.high) - (not band.high_closed)
    is_above, is_below = low == 1, high == -1
    return Band(0 if is_above else low, not is_above, 0 if is_below else high, not is_below)


def normal_order(common: CommonJoin) -> tuple[object, ...]:
    """Of a join and its mirror image, the lesser is the normal form."""
    band = common.condition
    bounds = () if band is None else bounds_of(band)
    return (
        *((side.stream, side.kind, tuple(map(spelled, side.keys))) for side in common.sides),
        bounds,
        tuple(kind or "" for kind in common.indexes or ()),
    )


def over_stream(side: SideNode, source: PlanNode) -> SideNode:
    """The side over all columns of its stream, which are named after it."""
    assert isinstance(source, SourceNode), "a join's inputs are streams"
    places = source.columns

    def move(node: Expression) -> Expression:
        if not isinstance(node, Column):
            return node
        index = node.index if places is None else places[node.index]
        return Column(node.type, index, f"{source.stream}.{node.name.rsplit('.', 1)[-1]}")

    columns = side.columns if places is None else tuple(places[i] for i in side.columns)
    predicate = None if side.predicate is None else rewrite(side.predicate, move)
    return replace(
        side, predicate=predicate, keys=tuple(rewrite(key, move) for key in side.keys), columns=columns
    )


def spelled(expression: Expression) -> str:
    """The expression in letters, the same whatever its columns are called."""

    def bare(node: Expression) -> Expression:
        return Column(node.type, node.index, f"#{node.index}") if isinstance(node, Column) else node

    return f"{expression.type}:{rewrite(expression, bare)}"
