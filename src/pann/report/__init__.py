"""Reports as one HTML page that needs nothing else.

Tables, facts (`page`) and charts (`charts`) are gathered from runs (`runs`) and models (`models`)
into a page (`own`), and written as HTML (`writing`) with plots that zoom (`plots`).
"""

from pann.report import charts, page, texts
from pann.report.runs import environment_sections, make_details
from pann.report.writing import check_page, write_page

__all__ = [
    "charts",
    "check_page",
    "environment_sections",
    "make_details",
    "page",
    "texts",
    "write_page",
]
