"""Reports as one HTML page that needs nothing else: of the paper's runs, or of a user's own.

gathering (`paper`, `own`) -> blocks of a page (`page`) with plots (`plots`) -> HTML (`writing`)
"""
