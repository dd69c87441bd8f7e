//! Values and groups in the order in which they come first.

/// Every value once.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    group_by(values.into_iter().map(|value| (value, ()))).into_iter().map(|(value, _)| value).collect()
}

/// The values of every key.
pub(crate) fn group_by<K: PartialEq, T>(values: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, value) in values {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}
