//! JUnit XML, as CI servers read it.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{Check, Status, Verdict};
use crate::order::group_by;

/// One suite per split, one case per check; what is undecided is an error, not a failure.
pub fn junit(verdict: &Verdict) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("paravt-bench check");
    let case = |check: &Check| {
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
        case
    };
    for (group, cases) in group_by(verdict.checks.iter().map(|check| (check.group.as_str(), case(check)))) {
        let mut suite = TestSuite::new(group);
        suite.add_test_cases(cases);
        report.add_test_suite(suite);
    }
    report.to_string()
}
