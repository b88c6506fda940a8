"""PO, XLIFF and TMX: languages, plural forms, tags inside strings, XML with places."""
