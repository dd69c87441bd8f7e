//! Python semantics that the reference code relies on: `str.strip`, `\w`, `float()`, `json.loads`, `{:.1f}`.
