"""DLProf's reports, versions 0.13 to 1.8."""
