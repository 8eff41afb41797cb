"""What a join that queries have in common has done and holds, whatever its form, as a plain record."""

from __future__ import annotations

from penstock.engine.chain.ordered_union import OrderedUnion
from penstock.engine.flow.facts import Work, work_of
from penstock.engine.joins.window_join import WindowJoin

from .form import Form


def work_of_form(form: Form) -> Work:
    """All its operators together, after what they have counted was told; rows_out: pairs given to queries."""
    form.settle()
    operators = form.operators
    each = [work_of(one) for one in operators]
    giving = [isinstance(one, WindowJoin | OrderedUnion) for one in operators]
    return Work(
        each[0].rows_in,
        sum(one.rows_out for one, gives in zip(each, giving, strict=True) if gives),
        sum(one.busy_s for one in each),
        sum(one.state_rows for one in each),
        sum(one.state_bytes for one in each),
    )
