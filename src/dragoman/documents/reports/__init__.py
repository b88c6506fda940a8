"""What people read of a translated document: the report, the review page, bilingual files."""
