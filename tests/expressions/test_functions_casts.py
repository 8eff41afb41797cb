"""Text to values and intervals to text, against DuckDB: we read what it reads and refuse what it refuses."""

from __future__ import annotations

import pytest
from functions_oracle import RAISED, Table, crossed
from nasty_values import BIGINT, BOOLEAN, DOUBLE, INTERVAL, TIMES, TIMESTAMP, VARCHAR, words

from penstock.engine.expressions.expression import Call
from penstock.engine.rows.types import SqlType

INTEGER_TEXTS = words(
    "1| 42 |\t42\n|\x0b7\x0c\r|+5|-5|- 5||  |4.5|5.5|-4.5|4.4|1e3|1.5e0|2.5e0|1E3|1e-1|5e-1|15e-1|"
    "-25e-1|1_000|1__0|_1|1_|0x1F|0X1f|-0x1F|0o17|00012|9223372036854775807|9223372036854775808|"
    "-9223372036854775808|-9223372036854775809|1.|.|.5|9223372036854775807.4|9223372036854775807.5|"
    "-9223372036854775808.4|-9223372036854775808.5|-.5|1e|1e18|1e19|9.2e18|-9223372036854775808e0|"
    "92233720368547758075e-1|abc|1 2|nan|inf|true|1,000|1f|１|\xa042|12e2.5|1e+|+-5|1.5.5|1e-400|"
    "1_000.5|0.1_5|1._5|--5|-0|1e00000000000000000001|1.49999999999999999999999999|"
    "0.50000000000000000000000001|000000000000000000000005|0xFFFFFFFFFFFFFFFF|0x7FFFFFFFFFFFFFFF|0x|"
    "0xg|1.0e+2|12345678901234567e-16|5e-19|1\x00|1_0e1_0|4999999999999999999e-19|"
    "5000000000000000000e-19|-5000000000000000000e-19|9e-20|123456789e-3|-1e18"
)
DOUBLE_TEXTS = words(
    "NaN|Infinity|-inf|+inf|-nan|+nan| nan |nan(abc)|infinit|1e400|-1e400|4.9e-324|-0.0|"
    "1.7976931348623159e308|1e1000000000000|1.e5|.e5|e5|0x1p3|1d|0.1|1e-5|123456789.123456789"
)
DOUBLE_TEXTS += [text for text in INTEGER_TEXTS if text != "+-5"]  # DuckDB takes both signs of a double
BOOLEAN_TEXTS = words("true|True|t|T|f|yes|NO|y|N|on|off|0|1|2| true |FALSE||true\n")
TIMESTAMP_TEXTS = words(
    "2020-01-02|2020-1-2| 2020-01-02 |2020-01-02 03:04:05|2020-01-02T03:04:05|2020-01-02t03:04:05|"
    "2020-01-02  03:04:05|2020-01-02 03:04|2020-01-02 03|2020-01-02 3:4:5|2020-01-02 03:04:05.1|"
    "2020-01-02 03:04:05.|2020-01-02 03:04:05.123456|2020-01-02 03:04:05.9999999|"
    "2020-01-02 03:04:05.12345678999|2020-01-02 03:04:05Z|2020-01-02T03:04:05.5Z|2020-01-02 03:04:05z|"
    "2020-01-02 03:04:05+02|2020-01-02 03:04Z|2020-01-02 03:04:05+02:30|2020-01-02 03:04:05-0230|"
    "2020-01-02 03:04:05 +02|2020-01-02 03:04:05+2|2020-01-02 03:04:05+02:30:15|"
    "2020-01-02 03:04:05 UTC|2020-01-02 03:04:05UTC|2020-01-02 03:04:05 Europe/Berlin|"
    "2020-01-02 24:00:00|2020-01-02 24:00:01|2020-01-02 25:00:00|2020-01-02 03:60:00|"
    "2020-01-02 03:04:60|2020-02-30|2020-13-01|2020-00-01|2021-02-29|1900-02-29|2000-02-29|2020-12-32|"
    "2020-04-31|2020-01-00|0000-01-01|0001-01-01|-0001-01-01|-5-01-01|10000-01-01|99-01-01|"
    "123456-01-01|5-1-1|294247-01-10 04:00:54.775806|294247-01-10 04:00:54.775807|294247-01-11|"
    "294248-01-01|290309-12-22 (BC)|290309-12-21 (BC)|0044-03-15 (BC)|0044-03-15 (BC) 12:00:00|"
    "0044-03-15 (bc)|0044-03-15 BC|0000-01-01 (BC)|0044-03-15(BC)|0044-03-15 12:00:00 (BC)|"
    "-0044-03-15 (BC)|-290308-12-22 00:00:00|2020/01/02 03:04:05|2020 01 02|20200102|2020-01/02|"
    "2020-001-02|2020-01-002|2020-01-02 003:04:05|epoch|Epoch| epoch |now||abc|2020-01|2020|12:00:00|"
    "2020-01-02 abc|2020-01-02T|2020-01-02 |2020-01-02Z|2020-01-02+02|2020-01-02 -03:04:05|+2020-01-02|"
    "2020-01-02 03:04:05.5 |2020-01-02 03:04:05,5|2020-01-02_03:04:05|2020-01-02 03:04:05.abc|"
    "2020-01-02 03:04:05+|2020\\01\\02|2020-01-02\n03:04:05|2020-01-02 03:04:05 a b|"
    "2020-01-02 03:04:05+02 UTC|2020-01-02 03:004:05|2020-01-02 100:04:05|99999999999-01-01|"
    "2020-01-02 03:04:05+0:30|2020-01-02 03:04:05+02:3|2020-01-02 03:04:05+023|2020-01-02 03:04:05\xa0|"
    "2020-01-02 03:04:05+02 |2020-01-02 03:04:05 Z|294247-01-10 24:00:00|9999-12-31 23:59:59.999999|"
    "2020-01-02 24:00"
)


@pytest.mark.parametrize(
    ("target", "texts"),
    [(BIGINT, INTEGER_TEXTS), (DOUBLE, DOUBLE_TEXTS), (BOOLEAN, BOOLEAN_TEXTS), (TIMESTAMP, TIMESTAMP_TEXTS)],
    ids=["BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP"],
)
def test_cast_from_text_oracle(target: SqlType, texts: list[str]) -> None:
    """Each text alone, where Arrow may read it, and all good ones together, where our own way must agree."""
    table = Table([(VARCHAR, texts)])
    cast = Call(target, "cast", tuple(table.columns))
    theirs = table.theirs([cast])[0]
    table.compare(cast, table.ours(cast), theirs)
    good = [i for i, value in enumerate(theirs) if value != RAISED]
    together = Table([(VARCHAR, [None, *(texts[i] for i in good)])])
    together.compare(cast, together.ours(cast), [None, *(theirs[i] for i in good)])


def test_interval_as_text_oracle() -> None:
    """A difference of two timestamps is days and the rest, as we write every interval."""
    table = crossed((TIMESTAMP, TIMES[:9]), (TIMESTAMP, TIMES[:9]))
    table.check(Call(VARCHAR, "cast", (Call(INTERVAL, "subtract", tuple(table.columns)),)))
