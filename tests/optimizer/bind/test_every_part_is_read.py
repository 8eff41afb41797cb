"""What is written is read: what the stock parser hangs onto a node is obeyed or refused, never passed over.

Foreign parts are planted into trees of good queries: into every part of every node of them, and whole nodes
of every kind the installed stock parser knows, in every place of a query, with something in each of their
parts. A planted node is of a kind that cannot be bound, so a query that takes it has not read it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from sqlglot import exp

from penstock.engine.rows.errors import QueryError, UnsupportedError
from penstock.optimizer.bind.bind import bind_query, bind_relation
from penstock.optimizer.bind.catalog import Catalog
from penstock.optimizer.read.parse import parse_query, parse_script
from penstock.optimizer.read.statements import CreateStream, CreateTable, SelectStatement
from penstock.optimizer.tree.logical import Query

QUERIES = """
SELECT a.v AS w, s1.v + -1 AS x, 'text', TRUE, NULL FROM a, s1 WHERE a.v > 1 AND (s1.v < 2 OR NOT
a.ok)

SELECT * FROM a JOIN t ON a.k = t.k LEFT JOIN (SELECT s FROM s1) AS u USING (s)

SELECT a.* FROM a SEMI JOIN (SELECT k FROM b) AS c (k) ON a.k = c.k

SELECT * FROM (a CROSS JOIN (SELECT v AS z FROM b) AS q) FULL OUTER JOIN (b AS c JOIN t ON c.k =
t.k) ON a.k = t.k

WITH x AS (SELECT k FROM a), y (m) AS ((SELECT k FROM x)) (SELECT m FROM y) UNION ALL SELECT k FROM
b

(SELECT k FROM a) EXCEPT ALL ((SELECT k FROM b) INTERSECT SELECT k FROM t)

SELECT k, v + 1 AS w, COUNT(*), SUM(DISTINCT v), MIN(v) FROM a GROUP BY k, w HAVING COUNT(v) > 1 AND
w > 2

SELECT DISTINCT k, -v FROM a WHERE EXISTS (SELECT DISTINCT 1 FROM b WHERE b.k = a.k AND b.v > 2)

SELECT 1 FROM a WHERE NOT (EXISTS ((SELECT * FROM b))) AND (k = 1 AND v = 2)

SELECT k FROM a WHERE k IN (1, 2) AND k NOT BETWEEN 3 AND 4 AND s LIKE 'x%' AND s NOT ILIKE 'y' AND
k IS NOT NULL

SELECT ok IS TRUE, k IS DISTINCT FROM 3, CASE k WHEN 1 THEN 2 ELSE 3 END, CASE WHEN ok THEN 1 END,
IF(ok, 1, 2) FROM a

SELECT CAST(k AS DOUBLE), k::VARCHAR, ts + INTERVAL '5' SECOND, ts - INTERVAL '-1 hour', INTERVAL -5
SECONDS FROM a

SELECT EXTRACT(YEAR FROM ts), DATE_TRUNC('day', ts), s || 'x', CONCAT(s, 'x'), TRIM(BOTH 'x' FROM
s), LOG(2, v) FROM a

SELECT COALESCE(k, 1), GREATEST(k, 1), LEAST(k, 1), NULLIF(k, 1), starts_with(s, 'x'), epoch(ts),
ROUND(v, 2) FROM a

SELECT k % 2, k // 2, k / 2, k * 2, k - 2, SUBSTRING(s, 1, 2), REPLACE(s, 'a', 'b'), YEAR(ts),
POWER(v, 2) FROM a

SELECT COUNT(*) FROM a GROUP BY 1 + 1
""".strip().split("\n\n")
TAIL = " WINDOW 5 SECONDS"

# Parts that say nothing which changes an answer: what the stock parser notes for itself, of the dialect it
# read, or how names were quoted. A node planted into them is refused all the same.
SAYS_NOTHING = {
    ("Identifier", "quoted"),
    ("Count", "big_int"),
    ("Coalesce", "is_nvl"),
    ("Coalesce", "is_null"),
    ("Greatest", "ignore_nulls"),
    ("Least", "ignore_nulls"),
    ("DataType", "nested"),
    ("DataType", "kind"),
    ("Interval", "fraction_in_string"),
    ("Concat", "coalesce"),
    *((kind, part) for kind in ("Concat", "DPipe", "Div", "IntDiv") for part in ("safe", "typed")),
}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    declared = Catalog()
    columns = "(ts TIMESTAMP, k BIGINT, v DOUBLE, s VARCHAR, ok BOOLEAN)"
    script = "; ".join(f"CREATE STREAM {name} {columns}" for name in ("a", "b", "s1"))
    for statement in parse_script(f"{script}; CREATE TABLE t (k BIGINT, label VARCHAR)"):
        assert isinstance(statement, CreateStream | CreateTable)
        declared.add(bind_relation(statement))
    return declared


def taken(statement: SelectStatement, catalog: Catalog) -> Query | None:
    """The query, if it is bound. Other shapes than the parser makes may fail in any way."""
    try:
        return bind_query(statement, catalog)
    except (QueryError, AssertionError, AttributeError, IndexError, KeyError, TypeError):
        return None


def foreign() -> exp.Expression:
    """A node that nobody binds."""
    return exp.SessionParameter(this=exp.Var(this="unread"), kind="global")


def every_kind() -> list[type[exp.Expression]]:
    """Every class of node the stock parser knows."""
    kinds: dict[str, type[exp.Expression]] = {}
    rest: list[type[exp.Expression]] = [exp.Expression]
    while rest:
        kind = rest.pop()
        below = kind.__subclasses__()
        rest.extend(below)
        if kind.__name__ not in kinds and (not below or "arg_types" in vars(kind)):
            kinds[kind.__name__] = kind
    return [kinds[name] for name in sorted(kinds)]


def places(tree: exp.Expression) -> Iterator[tuple[exp.Expression, str, int | None, exp.Expression]]:
    """Every place in a tree where a node stands: its parent, the part, the number in a list, the node."""
    for node in list(tree.walk()):
        for part, value in list(node.args.items()):
            if isinstance(value, list):
                for number, each in enumerate(value):
                    if isinstance(each, exp.Expression):
                        yield node, part, number, each
            elif isinstance(value, exp.Expression):
                yield node, part, None, value


def test_the_queries_are_good(catalog: Catalog) -> None:
    for sql in QUERIES:
        bind_query(parse_query(sql + TAIL), catalog)


def test_something_in_any_part_of_any_node_is_read_or_refused(catalog: Catalog) -> None:
    """A word or a flag may also be taken if it changes what the query means."""
    tried: set[tuple[str, str, str, str]] = set()
    unread = []
    for sql in QUERIES:
        statement = parse_query(sql + TAIL)
        meant = bind_query(statement, catalog).root
        above = {id(node): (type(parent).__name__, part) for parent, part, _, node in places(statement.tree)}
        for node in list(statement.tree.walk()):
            kind = type(node).__name__
            for part in {*node.arg_types, "limit", "where", "joins", "sample"}:
                here = (*above.get(id(node), ("", "")), kind, part)
                before = node.args.get(part)
                if here in tried or isinstance(before, exp.Expression | list):
                    continue
                tried.add(here)
                for planted in (foreign(), [foreign()], [[foreign()]], True, "unread", ["unread"], 7):
                    if isinstance(before, bool) and not isinstance(planted, list) and bool(planted) is before:
                        continue
                    node.args[part] = planted
                    found = taken(statement, catalog)
                    is_flag = not isinstance(planted, exp.Expression | list)
                    if found is None or (is_flag and (kind, part) in SAYS_NOTHING):
                        continue
                    if found.root == meant or not is_flag:
                        unread.append((*here, str(planted)))
                if before is None:
                    del node.args[part]
                else:
                    node.args[part] = before
    assert len(tried) > 1_000
    assert unread == []


def test_a_node_of_any_kind_anywhere_is_read_or_refused(catalog: Catalog) -> None:
    kinds = every_kind()
    assert len(kinds) > 800
    assert {exp.Subquery, exp.Lock, exp.TableSample, exp.JSONExtractScalar} <= set(kinds)
    statement = parse_query(
        "WITH x AS (SELECT k FROM a) SELECT v AS w FROM (b JOIN x ON b.k = x.k) WHERE v > 1 AND v < 3" + TAIL
    )
    spots: dict[tuple[str, str], tuple[exp.Expression, str, int | None]] = {}
    for parent, part, number, _ in places(statement.tree):
        spots.setdefault((type(parent).__name__, part), (parent, part, number))
    assert len(spots) > 15
    unread = []
    for kind in kinds:
        for (above, _), (parent, part, number) in spots.items():
            held = parent.args[part] if number is None else parent.args[part][number]
            for own in kind.arg_types if above in ("GT", "From") else list(kind.arg_types)[:1]:
                planted = kind(**{own: foreign()})
                if number is None:
                    parent.args[part] = planted
                else:
                    parent.args[part][number] = planted
                if taken(statement, catalog) is not None:
                    unread.append((above, part, kind.__name__, own))
            if number is None:
                parent.args[part] = held
            else:
                parent.args[part][number] = held
    assert unread == []


# Everything is named here: where a column is named by its text, that is another query.
NAMED = """
SELECT a.v AS w, s1.v - 1 AS x FROM a, s1 AS s1 WHERE a.v > 1 AND (s1.v < 2 OR NOT a.ok)

SELECT a.k AS k FROM (a AS a CROSS JOIN (SELECT v AS z FROM b AS b) AS q) JOIN t AS t USING (k)

WITH x AS (SELECT k AS k FROM a AS a), y (m) AS ((SELECT k AS k FROM x AS x)) (SELECT m AS m FROM y
AS y) EXCEPT ALL SELECT k AS k FROM t AS t

SELECT k AS k, CAST(COUNT(*) AS DOUBLE) AS c, SUM(DISTINCT v) AS d FROM a AS a GROUP BY k HAVING
MIN(v) > 1

SELECT CASE k WHEN 1 THEN 2 ELSE 3 END AS q, ts + INTERVAL '5' SECOND AS e FROM a AS a WHERE k IN
(1, 2) AND k BETWEEN 3 AND 4 AND s LIKE 'x%' AND EXISTS (SELECT b.k AS k FROM b AS b WHERE b.k = a.k)
""".strip().split("\n\n")
WORDS = [*".,()[]{}:/%*-<>=|&^#~!?@$1", "'x'", "COLLATE", "OUTER", "ESCAPE", "BETWEEN", "ON", "USING"]
WORDS += ["CROSS JOIN", "LIMIT", "FETCH", "FOR", "INTO", "OVER", "ORDER BY"]


def test_a_word_too_many_is_another_query_or_refused(catalog: Catalog) -> None:
    """Some words leave no trace in the stock parser's tree: that is for check_tokens.py."""
    skipped = []
    for sql in NAMED:
        meant = bind_query(parse_query(sql + TAIL), catalog).root
        begins = [match.start() for match in re.finditer(r"\w+|'[^']*'|[^\w\s]", sql)]
        for word, begin in itertools.product(WORDS, [*begins, len(sql)]):
            text = f"{sql[:begin]} {word} {sql[begin:]}{TAIL}"
            try:
                found = bind_query(parse_query(text), catalog).root
            except QueryError:
                continue
            if found == meant:
                skipped.append(text)
    assert skipped == []


@pytest.mark.parametrize(
    ("clause", "name"),
    [
        ("WHERE v > 1", "WHERE behind brackets"),
        ("GROUP BY v", "GROUP BY behind brackets"),
        ("HAVING v > 1", "HAVING behind brackets"),
        ("JOIN t ON TRUE", "JOIN behind brackets"),
        ("ORDER BY v", "ORDER BY"),
        ("LIMIT 1", "LIMIT"),
        ("OFFSET 1", "OFFSET"),
        ("FETCH FIRST 1 ROWS ONLY", "FETCH"),
        ("QUALIFY v > 1", "QUALIFY"),
        ("TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("FOR UPDATE", "FOR UPDATE"),
        ("FOR SHARE", "FOR SHARE"),
    ],
)
def test_a_clause_behind_brackets_is_refused_where_it_stands(
    clause: str, name: str, catalog: Catalog
) -> None:
    for sql in (
        "(SELECT v FROM a) {}",
        "((SELECT v FROM a)) {}",
        "((SELECT v FROM a) {})",
        "WITH x AS ((SELECT v FROM a) {}) SELECT v FROM x",
        "SELECT v FROM b UNION ALL ((SELECT v FROM a) {})",
    ):
        with pytest.raises(UnsupportedError, match=f"^{name} is not supported") as caught:
            bind_query(parse_query(sql.format(clause)), catalog)
        assert (caught.value.line, caught.value.column) == (1, sql.index("{}") + 1), sql
