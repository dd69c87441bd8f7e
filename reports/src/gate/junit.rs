//! JUnit XML, as CI servers read it.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{Status, Verdict};

/// One suite per split, one case per check; what is undecided is an error, not a failure.
///
/// # Errors
/// The XML cannot be written.
pub fn junit(verdict: &Verdict) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("paravt-bench check");
    let mut suites: Vec<TestSuite> = Vec::new();
    for check in &verdict.checks {
        let mut status = match check.status {
            Status::Pass => TestCaseStatus::success(),
            Status::Skipped => TestCaseStatus::skipped(),
            Status::Undecided => TestCaseStatus::non_success(NonSuccessKind::Error),
            Status::Fail => TestCaseStatus::non_success(NonSuccessKind::Failure),
        };
        status.set_message(check.message.as_str());
        let mut case = TestCase::new(check.name.as_str(), status);
        case.set_classname(check.group.as_str());
        if check.status == Status::Pass {
            case.set_system_out(check.message.as_str());
        }
        match suites.iter_mut().find(|suite| suite.name.as_str() == check.group) {
            Some(suite) => {
                suite.add_test_case(case);
            }
            None => {
                let mut suite = TestSuite::new(check.group.as_str());
                suite.add_test_case(case);
                suites.push(suite);
            }
        }
    }
    report.add_test_suites(suites);
    report.to_string()
}
