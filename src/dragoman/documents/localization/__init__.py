"""What PO, XLIFF and TMX share: languages, plural forms, tags inside strings, XML with places."""
