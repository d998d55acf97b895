"""Reports as one HTML page that needs nothing else.

Tables, facts (`page`) and charts (`charts`) are gathered from runs (`runs`) and models (`models`)
into a page (`own`), and written as HTML (`writing`) with plots that zoom (`plots`).
"""
