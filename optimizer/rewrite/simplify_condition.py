"""A condition of WHERE, ON or HAVING in a normal form: spellings that mean the same become the same.

So that joins on one condition are found to be in common, an index serves it, and filters of many queries that
ask the same are one filter. A condition lets in the rows for which it is TRUE. The laws, which hold in
three-valued logic:

- AND and OR forget order and repetition, and are distributive: what all branches of an OR have in common
  stands before it, (x AND p) OR (x AND q) is x AND (p OR q), x OR (x AND p) is x;
- NOT goes down to the comparisons, by De Morgan's laws;
- NULL counts as FALSE at the top and below AND and OR there (`true`: only whether it is TRUE matters), as
  TRUE below a NOT of that (`false`). There x IS TRUE, COALESCE(x, FALSE) and CASE WHEN x THEN TRUE ELSE FALSE
  END are x, and x AND NOT x is FALSE. Elsewhere (`value`) NULL stays what it is;
- comparisons are in the form of `simplify_value.py`, those of the same operands one (`merge_comparisons.py`).

What may fail (integers overflow, division by zero, casts) fails on the same rows as before. In an AND or OR
the parts that cannot fail are looked at first, then the others in the order they are written, each only if
those before it have not settled the row (functions/conditional.py). So parts that cannot fail may be
rewritten as one likes, and parts that may keep their order among themselves. An AND or OR that may fail is
not taken apart or lifted out of the call it stands in: where it stands says what guards its parts.
"""

from __future__ import annotations

from functools import lru_cache, reduce

from penstock.engine.expressions.expression import (
    FALSE,
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    conjunction,
    conjuncts,
    walk,
    with_arguments,
)
from penstock.engine.expressions.functions import may_raise
from penstock.engine.rows.types import SqlType

from .merge_comparisons import SETS, is_known, merge_comparisons
from .simplify_value import is_call, is_guarded, negated, order_of, simplify_value

L = SqlType.BOOLEAN
FLIPPED = {"true": "false", "false": "true", "value": "value"}
# Functions that give NULL exactly if one of their arguments is.
STRICT = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "not", "cast")
NEVER_NULL = ("is_null", "is_not_distinct")
MOST_ROUNDS = 8
# Of a CASE that is to become AND and OR: each branch holds the rest.
MOST_BRANCHES = 50


def simplify_condition(condition: Expression) -> Expression:
    """The condition, TRUE for the same rows and failing on the same rows; TRUE itself if it says nothing."""
    return simplified(condition, tuple(node.name for node in walk(condition) if isinstance(node, Column)))


@lru_cache(maxsize=128)
def simplified(condition: Expression, names: tuple[str, ...]) -> Expression:
    """names: of its columns, which take no part in equality but are shown. A plan asks for one often."""
    for _ in range(MOST_ROUNDS):
        before, condition = condition, Simplifier().simplify(condition, "true")
        if condition == before:
            break
    return condition


def simplify_all(parts: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The same for conditions joined by AND. If they exclude each other, each by itself and FALSE: nothing
    comes of it, but it still is, say, a join on some equality, which others may have too."""
    whole = conjunction(parts)
    if whole is None:
        return ()
    simple = simplify_condition(whole)
    if simple != FALSE:
        return conjuncts(simple)
    each = (one for part in conjuncts(whole) for one in conjuncts(simplify_condition(part)))
    return tuple(dict.fromkeys((*each, FALSE)))


class Simplifier:
    """One walk over an expression. Equal parts are worked once, so that no rewriting makes it explode."""

    def __init__(self) -> None:
        self._known: dict[tuple[Expression, str], Expression] = {}

    def simplify(self, expression: Expression, want: str) -> Expression:
        """want: which outcome matters, `true`, `false` or all, `value`."""
        if isinstance(expression, Call):
            key = expression, want
            if key not in self._known:
                self._known[key] = self._call(expression, want if expression.type is L else "value")
            return self._known[key]
        if expression == Literal(L, None) and want != "value":
            return FALSE if want == "true" else TRUE
        return expression

    def _call(self, call: Call, want: str) -> Expression:
        match call.function:
            case "and" | "or":
                return self._connective(call, want)
            case "not":
                return self._not(call, want)
            case "case" if call.type is L:
                return self._case(call, want)
        call = with_arguments(call, [self.simplify(argument, "value") for argument in call.arguments])
        found = simplify_value(call)
        if found != call:
            return self.simplify(found, want)
        return self._truth(call, want) if call.type is L else call

    def _truth(self, call: Call, want: str) -> Expression:
        """Functions that ask what a condition is, IS NULL and the like; and comparisons of x with x."""
        match call:
            case Call(function="coalesce", arguments=(subject, Literal(value=bool() as other))):
                asked = Call(L, "is_not_distinct", (subject, Literal(L, not other)))
                return self.simplify(asked if not other else Call(L, "not", (asked,)), want)
            case Call(function="nullif", arguments=(subject, Literal(value=False))) if want == "true":
                return subject if is_guarded(subject) else self.simplify(subject, want)
            case Call(function="is_null", arguments=(Call() as subject,)) if not may_raise(subject):
                if subject.function in NEVER_NULL:
                    return FALSE
                if subject.function in STRICT:
                    parts = tuple(Call(L, "is_null", (one,)) for one in subject.arguments)
                    return self.simplify(Call(L, "or", parts), want)
            case Call(function="is_not_distinct", arguments=(subject, Literal() as other)):
                return self._same(call, subject, other, want)
            case Call(function=function, arguments=(a, b)) if a == b and not may_raise(a) and want == "true":
                if function in ("equal", "less_equal", "greater_equal"):
                    return self.simplify(is_known(a), want)
                if function in ("not_equal", "less", "greater"):
                    return FALSE
        return call

    def _same(self, call: Call, subject: Expression, other: Literal, want: str) -> Expression:
        """IS NOT DISTINCT FROM a constant."""
        if other.value is None:
            return self.simplify(Call(L, "is_null", (subject,)), want)
        if is_guarded(subject):
            return call
        if want == "true" or is_never_null(subject):
            return self.simplify(Call(L, "equal", (subject, other)), want)
        return call

    def _not(self, call: Call, want: str) -> Expression:
        inner = call.arguments[0]
        if may_raise(inner):
            return negated(self.simplify(inner, "value"))
        inner = self.simplify(inner, FLIPPED[want])
        if is_call(inner, "and", "or"):
            parts = tuple(Call(L, "not", (part,)) for part in inner.arguments)
            return self.simplify(Call(L, "or" if inner.function == "and" else "and", parts), want)
        return negated(inner)

    def _case(self, call: Call, want: str) -> Expression:
        """As AND and OR, where a branch is a constant and nothing may fail."""
        *pairs, other = call.arguments
        if may_raise(call) or len(pairs) > 2 * MOST_BRANCHES:
            arguments = tuple(self.simplify(one, "value") for one in call.arguments)
            only = len(arguments) == 3 and arguments[1:] == (TRUE, FALSE) and not is_guarded(arguments[0])
            if only:
                return self.simplify(Call(L, "is_not_distinct", (arguments[0], TRUE)), want)
            return simplify_value(Call(call.type, "case", arguments))
        result = self.simplify(other, want)
        for when, then in reversed(list(zip(pairs[::2], pairs[1::2], strict=True))):
            result = self._choose(when, self.simplify(then, want), result, want)
        return result

    def _choose(self, when: Expression, then: Expression, other: Expression, want: str) -> Expression:
        if then == other:
            return then
        is_true: Expression = Call(L, "is_not_distinct", (when, TRUE))
        is_not = Call(L, "not", (is_true,))
        for value, first, second in (
            (then, (is_true, other), (is_not, other)),
            (other, (is_not, then), (is_true, then)),
        ):
            if value == TRUE:
                return self.simplify(Call(L, "or", first), want)
            if value == FALSE:
                return self.simplify(Call(L, "and", second), want)
        return simplify_value(Call(L, "case", (self.simplify(when, "true"), then, other)))

    # AND and OR

    def _connective(self, call: Call, want: str) -> Expression:
        function = call.function
        neutral, settling = (TRUE, FALSE) if function == "and" else (FALSE, TRUE)
        # 1. the parts, by themselves. One that looked as if it could fail and cannot (x + 0) stays if it
        #    would overtake one that can
        assert want != "false" or not may_raise(call), "NOT of what may fail is of a value"
        parts: dict[Expression, None] = {}
        is_behind = False
        for argument in call.arguments:
            part = self.simplify(argument, want)
            if is_behind and may_raise(argument) and not may_raise(part):
                part = argument
            is_behind |= may_raise(part)
            is_nested = is_call(part, function) and not may_raise(part)
            parts |= dict.fromkeys(part.arguments if is_nested else (part,))  # type: ignore[union-attr]
        parts.pop(neutral, None)
        if settling in parts:
            return settling
        # 2. those that cannot fail, together
        certain = [part for part in parts if not may_raise(part)]
        doubtful = [part for part in parts if may_raise(part)]
        merged = self._together(function, certain, want)
        if merged != certain:
            return self.simplify(connected(function, (*merged, *doubtful), neutral), want)
        if not doubtful and len(parts) > 1 and function == "or":
            factored = factor(certain)
            if factored is not None:
                return self.simplify(factored, want)
        # 3. in order; a single AND or OR that may fail stays inside, where nothing else guards its parts
        rest = (*sorted(certain, key=order_of), *doubtful)
        if len(rest) == 1 and is_guarded(rest[0]):
            return Call(L, function, (neutral, rest[0]))
        return connected(function, rest, neutral)

    def _together(self, function: str, certain: list[Expression], want: str) -> list[Expression]:
        """What two or more of the parts of an AND or OR say together; the same parts if nothing."""
        if len(certain) < 2:
            return certain
        merged = merge_comparisons(function, certain, want)
        settling = {("and", "true"): FALSE, ("or", "false"): TRUE}.get((function, want))
        said = frozenset(merged)
        if settling is not None and any(negated(part) in said for part in merged):
            return [settling]
        if (function, want) == ("and", "true"):
            compared = {one for part in merged for one in compared_alone(part)}
            merged = [where_known(part, said) for part in merged if part not in compared]
        return merged


def where_known(part: Expression, others: frozenset[Expression]) -> Expression:
    """x IS NOT DISTINCT FROM y, where one of them is known not to be NULL, is x = y."""
    if is_call(part, "is_not_distinct") and any(is_known(one) in others for one in part.arguments):
        return Call(L, "equal", part.arguments)
    return part


def compared_alone(part: Expression) -> list[Expression]:
    """That x is not NULL, which goes without saying where x is compared with a constant.

    Of two expressions that are compared it is kept: it may be a filter on one side of a join.
    """
    match part:
        case Call(function=function, arguments=(subject, Literal())) if function in SETS:
            return [is_known(subject)]
        case Call(function="in", arguments=(subject, *others)) if all(isinstance(o, Literal) for o in others):
            return [is_known(subject)]
    return []


def is_never_null(expression: Expression) -> bool:
    if is_call(expression, "and", "or", "not"):
        return all(map(is_never_null, expression.arguments))
    if isinstance(expression, Literal):
        return expression.value is not None
    return is_call(expression, *NEVER_NULL)


def connected(function: str, parts: tuple[Expression, ...], neutral: Expression) -> Expression:
    if not parts:
        return neutral
    return parts[0] if len(parts) == 1 else Call(L, function, parts)


def factor(branches: list[Expression]) -> Expression | None:
    """What all branches of an OR ask for, before the OR of the rest; None if there is nothing."""
    asked = [conjuncts(branch) for branch in branches]
    among = reduce(lambda some, more: some & set(more), asked[1:], set(asked[0]))
    if not among:
        return None
    common = [one for one in asked[0] if one in among]
    rests = [conjunction(tuple(one for one in parts if one not in among)) for parts in asked]
    left = tuple(TRUE if rest is None else rest for rest in rests)
    return Call(L, "and", (*common, Call(L, "or", left)))
