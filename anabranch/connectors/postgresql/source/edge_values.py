"""Every type of PostgreSQL, by release, with values that are easily lost, as expressions of SQL.

https://www.postgresql.org/docs/current/datatype.html. What does not live here: putting them anywhere (drawn_values.py).
"""

from __future__ import annotations

# type -> values that are easily lost. None of xml: the servers of tests read none.
VALUES: dict[str, tuple[str, ...]] = {
    "boolean": ("true", "false"),
    "smallint": ("-32768", "32767"),
    "integer": ("-2147483648", "2147483647"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "numeric": ("'NaN'", "1e-300", "-1e300", "0.00", "123456789012345678901234567890.123456789"),
    "numeric(10,3)": ("-9999999.999", "0.1"),
    "real": ("'NaN'", "'-Infinity'", "-0.0", "16777215", "1e-45", "3.4028235e38"),
    "double precision": ("'NaN'", "'Infinity'", "-0.0", "0.1", "5e-324", "1.7976931348623157e308"),
    "money": ("'-92233720368547758.08'", "0.01"),
    '"char"': ("'x'", "''"),
    "character(5)": ("'a'", "'  b'", "''"),
    "character varying(7)": ("'a  '", "'äöüß€😀x'"),
    "text": ("''", "E'tab\\t nl\\n cr\\r bs\\b ff\\f vt\\v back\\\\slash \\\\N \\\\. end'", "repeat('😀', 3000)"),
    "name": ("'a name'",),
    "bytea": ("''", "'\\x00ff5c0a'", "decode(repeat('00ff', 5000), 'hex')"),
    "date": ("'infinity'", "'-infinity'", "'4713-01-01 BC'", "'5874897-12-31'", "'2024-02-29'"),
    "time without time zone": ("'24:00:00'", "'00:00:00.000001'"),
    "time(3) with time zone": ("'24:00:00-15:59'", "'12:00:00.123+05:30'"),
    "timestamp without time zone": ("'infinity'", "'4713-01-01 00:00:00 BC'", "'294276-12-31 23:59:59.999999'"),
    "timestamp with time zone": ("'-infinity'", "'0044-03-15 12:00:00+01 BC'", "'2024-03-31 02:30:00.5 Europe/Berlin'"),
    "interval": ("'178000000 years'", "'-1 year 2 mons -3 days 04:05:06.789'", "'24:00:00'"),
    "bit(5)": ("B'10101'",),
    "bit varying": ("B''", "B'1' || repeat('01', 100)::varbit"),
    "inet": ("'::ffff:1.2.3.4/128'", "'10.1.2.3/8'"),
    "cidr": ("'10.0.0.0/8'", "'2001:db8::/32'"),
    "macaddr": ("'08:00:2b:01:02:03'",),
    "macaddr8": ("'08:00:2b:01:02:03:04:05'",),
    "uuid": ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",),
    "json": ('\'{"b": 1,  "a": [1, 2.50, null, "\\u00e4"], "a": 2}\'',),
    "jsonb": ('\'{"b": 1e400, "a": "\\u00e4\\n"}\'', "'1.000'"),
    "tsvector": ("'fat:1A ''cat:\\\\''s'':2B'", "to_tsvector('english', 'The quick brown foxes')"),
    "tsquery": ("'fat & (rat | !cat:*)'",),
    "point": ("'(1e-5,-0)'", "'(Infinity,NaN)'"),
    "line": ("'{1,2,3}'",),
    "lseg": ("'[(1,2),(3,4)]'",),
    "box": ("'(3,4),(1,2)'",),
    "path": ("'[(1,2),(3,4)]'", "'((1,2),(3,4))'"),
    "polygon": ("'((0,0),(1,1),(1,0))'",),
    "circle": ("'<(1,2),0.1>'",),
    "int4range": ("'empty'", "'[1,5]'", "'(,5)'"),
    "numrange": ("'[1.0,1.10)'",),
    "tstzrange": ("'[2024-01-01 00:00:00+00,infinity)'",),
    "int8range": ("'[-9223372036854775808,9223372036854775807)'",),
    "daterange": ("'[4713-01-01 BC,infinity)'", "'[2024-01-01,2024-01-01]'"),
    "tsrange": ("'(\"2024-01-01 00:00:00.000001\",]'",),
    "double precision[]": ("'{0.1,NaN,-Infinity,5e-324}'", "'{{-0},{1e23}}'"),
    "real[]": ("'{0.1,3.4028235e38,1e-45}'",),
    "bytea[]": ("ARRAY['\\x00ff'::bytea, NULL, '']",),
    "timestamp with time zone[]": ("'{2024-03-31 02:30:00.5 Europe/Berlin,-infinity}'",),
    "json[]": ('ARRAY[\'{"a": "\\\\"}\'::json]',),
    "box[]": ("'{(3,4),(1,2);(1,1),(0,0)}'",),
    "integer[]": ("'{}'", "'{{1,NULL},{3,4}}'", "'[-2:0]={1,2,3}'"),
    "text[]": ('\'{"a,b","c\\"d",NULL,"NULL","","back\\\\slash"}\'',),
    "numeric(5,2)[]": ("'{1.00,NaN}'",),
    "oid": ("4294967295",),
    "pg_lsn": ("'FFFFFFFF/FFFFFFFF'",),
    "xid": ("'4294967295'",),
    "cid": ("'4294967295'",),
    "tid": ("'(1,2)'",),
    "regtype": ("'integer'", "'timestamp with time zone'"),
    "int2vector": ("'1 2 -3'",),
    "oidvector": ("'1 4294967295'",),
    "txid_snapshot": ("'10:20:10,14,15'",),
    "refcursor": ("'a cursor'",),
}
# What has come since: release -> type -> values.
LATER: dict[int, dict[str, tuple[str, ...]]] = {
    12: {"jsonpath": ("'$.a[*] ? (@ > 1)'",)},
    13: {"xid8": ("'18446744073709551615'",), "pg_snapshot": ("'10:20:10,14,15'",)},
    14: {
        "numeric": ("'Infinity'", "'-Infinity'"),
        "int4multirange": ("'{[1,3),[5,7)}'", "'{}'"),
        "tstzmultirange": ("'{[2024-01-01 00:00:00+00,2024-01-02 12:30:00.5+00)}'",),
    },
    15: {"numeric(2,-3)": ("-99000",), "numeric(3,5)": ("0.00999",)},
    16: {'"char"': ("'\\377'",)},  # before, it prints a byte that is no UTF-8
    17: {"interval": ("'infinity'", "'-infinity'")},
}


def values_of(release: int) -> dict[str, tuple[str, ...]]:
    found = dict(VALUES)
    for since, types in LATER.items():
        for type, values in types.items() if release >= since else ():
            found[type] = (*found.get(type, ()), *values)
    return found
