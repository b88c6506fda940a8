"""HTML: pages, fragments and the XHTML of e-books; elements, text, drawings, controls and declared languages."""
