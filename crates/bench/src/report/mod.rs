//! Reports of results: tables for a terminal, `results.json`, `report.md` and `report.html`.
