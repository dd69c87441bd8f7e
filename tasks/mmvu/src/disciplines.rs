//! Subjects and the four disciplines they belong to (lmms-eval, `tasks/mmvu/utils.py`).

/// The disciplines in the order of the official table.
pub(crate) const DISCIPLINES: [&str; 4] =
    ["Science", "Healthcare", "Humanities_and_Social_Science", "Engineering"];

/// The discipline of a subject, written with spaces or underscores.
pub(crate) fn discipline(subject: &str) -> Option<&'static str> {
    Some(match subject.replace('_', " ").as_str() {
        "Biology" | "Chemistry" | "Modern Physics" | "Astronomy" | "Geography" | "Materials Science"
        | "Neurobiology" | "Electromagnetism" | "Thermodynamics" | "Mechanics" => DISCIPLINES[0],
        "Clinical Medicine" | "Basic Medicine" | "Preventive Medicine" | "Pharmacy" | "Dentistry" => {
            DISCIPLINES[1]
        }
        "Art" | "Literature" | "History" | "Law" | "Economics" | "Management" => DISCIPLINES[2],
        "Civil Engineering"
        | "Electrical Engineering"
        | "Mechanical Engineering"
        | "Biomedical Engineering"
        | "Electronics and Communication"
        | "Computer Science" => DISCIPLINES[3],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_published_spellings_are_read() {
        assert_eq!(discipline("Modern_Physics"), Some("Science"));
        assert_eq!(discipline("Modern Physics"), Some("Science"));
        assert_eq!(discipline("Alchemy"), None);
    }
}
