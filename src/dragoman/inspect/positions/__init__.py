"""Position codes (section 3.5) as numbers, as a picture and as a page: what each adds, and how positions compare."""
