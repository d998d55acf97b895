"""The report of the whole paper, every row of the full size, from made-up runs.

How long it takes to gather and write, how large it is, and how long Chromium takes to open it from
disk until all tables can be sorted; the median of five.
"""

import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.harness import Row

OPENINGS = 5
# By the page's own clock, from the moment it was asked for.
SINCE = "return performance.now() / 1000"


def rows() -> Iterator[Row]:
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
    import browsers
    from report_stores import made_up_store

    from pann.report.writing import write_page
    from reproduction.report import paper_page

    with tempfile.TemporaryDirectory() as place:
        store, path = made_up_store(pathlib.Path(place) / "runs"), pathlib.Path(place) / "page.html"
        start = time.perf_counter()
        size = write_page(paper_page(store), path)
        row: dict[str, object] = {
            "runs": len(store.records()),
            "megabytes": size / 1e6,
            "seconds to write": time.perf_counter() - start,
        }
        absent = browsers.why_absent()
        if absent is not None:
            yield row | {"seconds to open": absent}
            return
        browser = browsers.open_browser()
        for width in (1280, 390):
            browsers.look(browser, width)
            seconds = []
            for _ in range(OPENINGS):
                browsers.show(browser, path)
                seconds.append(browser.execute_script(SINCE))
            yield row | {"width": width, "seconds to open": statistics.median(seconds)}
        browser.quit()
