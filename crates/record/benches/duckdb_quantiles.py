"""The same figures by DuckDB from the same segments, for `throughput.rs`.

    pip install duckdb
    python3 duckdb_quantiles.py FOLDER [THREADS]

Prints the seconds that each way of computing quantiles per line takes.
"""

import sys
import time

import duckdb

LATENCY = " + ".join(
    f"coalesce({stage}_ns, 0)"
    for stage in "irq expire raise softirq signal waking running user worker".split()
)
QUANTILES = "[0.5, 0.99, 0.999, 0.9999]"
WAYS = {
    "histogram, 64 buckets per octave": """
        SELECT line, ceil(64 * log2(greatest({latency}, 1)))::INT AS bucket, count(*), max({latency})
        FROM samples GROUP BY ALL ORDER BY ALL""",
    "exact quantiles": """
        SELECT line, quantile_disc({latency}, {quantiles}), max({latency})
        FROM samples GROUP BY ALL ORDER BY ALL""",
    "approximate quantiles": """
        SELECT line, approx_quantile({latency}, {quantiles}), max({latency})
        FROM samples GROUP BY ALL ORDER BY ALL""",
}


def main():
    folder = sys.argv[1]
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    db = duckdb.connect()
    db.execute(f"SET threads = {threads}")
    db.execute(f"CREATE VIEW samples AS FROM '{folder}/samples/*.parquet'")
    for name, query in WAYS.items():
        start = time.monotonic()
        rows = db.execute(query.format(latency=LATENCY, quantiles=QUANTILES)).fetchall()
        seconds = time.monotonic() - start
        print(f"{name}: {seconds:.2f} s with {threads} threads, {len(rows)} rows")


main()
