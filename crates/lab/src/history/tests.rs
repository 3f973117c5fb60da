//! The checker against one that tries every order, against possible histories, and against histories with a wrong response.

use proptest::prelude::*;

use super::{
    BodyVersion, LinearizabilityViolation, Operation, OperationKind, OperationOutcome,
    WritePrecondition, check_linearizability,
};

/// The definition itself: a history passes if one of all orders explains it.
fn has_order(history: &[Operation], current: Option<BodyVersion>) -> bool {
    let must = |operation: &Operation| operation.outcome != OperationOutcome::Unknown;
    if !history.iter().any(must) {
        return true;
    }
    (0..history.len()).any(|first| {
        // All operations that finished before it started must come before it, except those that need not take effect.
        let operation = &history[first];
        let mut rest: Vec<_> = history.to_vec();
        rest.remove(first);
        let is_late = |other: &Operation| other.finished_at < operation.started_at;
        if rest.iter().any(|other| must(other) && is_late(other)) {
            return false;
        }
        rest.retain(|other| !is_late(other));
        operation
            .apply(current)
            .is_some_and(|next| has_order(&rest, next))
    })
}

fn any_condition() -> impl Strategy<Value = WritePrecondition> {
    prop_oneof![
        3 => Just(WritePrecondition::Always),
        1 => Just(WritePrecondition::Absent),
        1 => Just(WritePrecondition::Present),
        1 => (0..6u64).prop_map(|version| WritePrecondition::Matches(BodyVersion(version))),
    ]
}

fn any_change() -> impl Strategy<Value = OperationOutcome> {
    prop_oneof![
        4 => prop::option::of(any::<bool>()).prop_map(|replaced| OperationOutcome::Succeeded { replaced }),
        1 => Just(OperationOutcome::ConditionFailed),
        1 => Just(OperationOutcome::Unknown),
    ]
}

/// Any operation; a write is of version `number`.
fn any_operation(number: u64) -> impl Strategy<Value = Operation> {
    let found = prop::option::of((0..6u64).prop_map(BodyVersion));
    let kind_and_outcome = prop_oneof![
        2 => found.prop_map(|found| (OperationKind::Read, OperationOutcome::Found(found))),
        2 => (any_condition(), any_change())
            .prop_map(move |(condition, outcome)| (OperationKind::Write(BodyVersion(number), condition), outcome)),
        1 => (any_condition(), any_change()).prop_map(|(condition, outcome)| (OperationKind::Delete(condition), outcome)),
    ];
    (kind_and_outcome, 0..20u64, 0..8u64).prop_map(|((kind, outcome), started_at, duration)| {
        Operation {
            kind,
            started_at,
            finished_at: started_at + duration,
            outcome,
        }
    })
}

/// Up to six arbitrary operations.
fn any_history() -> impl Strategy<Value = Vec<Operation>> {
    (1..7usize).prop_flat_map(|count| (0..count as u64).map(any_operation).collect::<Vec<_>>())
}

/// One operation of a plan: what it does, how long before and after its instant it starts and finishes, and whether it gets a response.
#[derive(Debug, Clone, Copy)]
struct PlannedOperation {
    /// 0 to 9: four reads, four writes, two deletes.
    kind: u8,
    condition: WritePrecondition,
    early: u64,
    late: u64,
    /// 0: it is done without a response. 1: it is not done and gets no response. 2: its body is not sent completely.
    failure: u8,
}

fn plans() -> impl Strategy<Value = Vec<PlannedOperation>> {
    let planned = (0..10u8, any_condition(), 0..35u64, 0..35u64, 0..30u8).prop_map(
        |(kind, condition, early, late, failure)| PlannedOperation {
            kind,
            condition,
            early,
            late,
            failure,
        },
    );
    prop::collection::vec(planned, 1..120)
}

/// Carries out a plan on a register. The instants are ten ticks apart, and some six operations are concurrent.
fn carry_out(plans: &[PlannedOperation]) -> (Vec<Operation>, Option<BodyVersion>) {
    let mut current = None;
    let mut history = Vec::new();
    for (number, plan) in (0u64..).zip(plans) {
        let instant = 1000 + number * 10;
        // A condition on a recent version.
        let condition = match plan.condition {
            WritePrecondition::Matches(BodyVersion(back)) => {
                WritePrecondition::Matches(BodyVersion(number.saturating_sub(back)))
            }
            other => other,
        };
        let kind = match plan.kind {
            0..4 => OperationKind::Read,
            4..8 => OperationKind::Write(BodyVersion(number), condition),
            _ => OperationKind::Delete(condition),
        };
        let outcome = apply_to_register(kind, plan.failure, &mut current);
        history.push(Operation {
            kind,
            started_at: instant - plan.early,
            finished_at: instant + plan.late,
            outcome,
        });
    }
    (history, current)
}

fn apply_to_register(
    kind: OperationKind,
    failure: u8,
    current: &mut Option<BodyVersion>,
) -> OperationOutcome {
    let before = *current;
    let (condition, next) = match kind {
        OperationKind::Read => return OperationOutcome::Found(before),
        OperationKind::Write(version, condition) => (condition, Some(version)),
        OperationKind::Delete(condition) => (condition, None),
    };
    let holds = condition.holds(before);
    match failure {
        0 if holds => *current = next,
        0 | 1 => {}
        2 => return OperationOutcome::Failed,
        _ if !holds => return OperationOutcome::ConditionFailed,
        _ => {
            *current = next;
            return OperationOutcome::Succeeded {
                replaced: Some(before.is_some()),
            };
        }
    }
    OperationOutcome::Unknown
}

/// A time long after all operations of a plan, when none can take effect any more.
const AFTER: u64 = 1_000_000;

/// Appends operations that follow one another, from `AFTER` on.
fn append(history: &mut Vec<Operation>, more: &[(OperationKind, OperationOutcome)]) {
    for (n, &(kind, outcome)) in (0u64..).zip(more) {
        history.push(Operation {
            kind,
            started_at: AFTER + 2 * n,
            finished_at: AFTER + 2 * n + 1,
            outcome,
        });
    }
}

const WRITTEN: OperationOutcome = OperationOutcome::Succeeded { replaced: None };

fn write(version: u64) -> (OperationKind, OperationOutcome) {
    (
        OperationKind::Write(BodyVersion(version), WritePrecondition::Always),
        WRITTEN,
    )
}

fn read(found: Option<u64>) -> (OperationKind, OperationOutcome) {
    (
        OperationKind::Read,
        OperationOutcome::Found(found.map(BodyVersion)),
    )
}

const DELETE: (OperationKind, OperationOutcome) =
    (OperationKind::Delete(WritePrecondition::Always), WRITTEN);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_checker_agrees_with_trying_every_order(history in any_history()) {
        prop_assert_eq!(check_linearizability(&history).is_ok(), has_order(&history, None));
    }
}

proptest! {
    #[test]
    fn a_possible_history_passes(plans in plans()) {
        let (mut history, current) = carry_out(&plans);
        prop_assert_eq!(check_linearizability(&history), Ok(()));
        // The order of the operations in the history does not matter.
        history.reverse();
        append(&mut history, &[read(current.map(|version| version.0))]);
        prop_assert_eq!(check_linearizability(&history), Ok(()));
    }

    #[test]
    fn a_read_of_a_version_that_was_never_written_is_detected(plans in plans(), which in any::<prop::sample::Index>()) {
        let (mut history, _) = carry_out(&plans);
        let reads: Vec<_> = (0..history.len()).filter(|at| history[*at].kind == OperationKind::Read).collect();
        prop_assume!(!reads.is_empty());
        let read = &mut history[reads[which.index(reads.len())]];
        read.outcome = OperationOutcome::Found(Some(BodyVersion(77_777)));
        let is_found = matches!(check_linearizability(&history), Err(LinearizabilityViolation::Impossible { .. }));
        prop_assert!(is_found);
    }

    #[test]
    fn a_read_of_a_body_that_was_not_sent_completely_is_detected(plans in plans()) {
        let (mut history, _) = carry_out(&plans);
        let (kind, _) = write(800);
        append(&mut history, &[(kind, OperationOutcome::Failed), read(Some(800))]);
        prop_assert!(check_linearizability(&history).is_err());
    }

    #[test]
    fn an_old_version_after_an_acknowledged_newer_one_is_detected(plans in plans(), old in 0..120u64) {
        let (mut history, _) = carry_out(&plans);
        append(&mut history, &[write(900), read(Some(old))]);
        prop_assert!(check_linearizability(&history).is_err());
    }

    #[test]
    fn a_version_after_its_acknowledged_deletion_is_detected(plans in plans(), old in 0..120u64) {
        let (mut history, _) = carry_out(&plans);
        append(&mut history, &[write(900), DELETE, read(Some(900))]);
        prop_assert!(check_linearizability(&history).is_err());
        let end = history.len() - 1;
        history[end].outcome = OperationOutcome::Found(Some(BodyVersion(old)));
        prop_assert!(check_linearizability(&history).is_err());
    }

    #[test]
    fn a_loss_of_an_acknowledged_write_is_detected(plans in plans()) {
        let (mut history, _) = carry_out(&plans);
        append(&mut history, &[write(900), read(None)]);
        prop_assert!(check_linearizability(&history).is_err());
    }

    #[test]
    fn two_writes_that_replaced_the_same_version_are_detected(plans in plans()) {
        let (mut history, _) = carry_out(&plans);
        let replace = |version| (OperationKind::Write(BodyVersion(version), WritePrecondition::Matches(BodyVersion(900))), WRITTEN);
        append(&mut history, &[write(900), replace(901), replace(902)]);
        prop_assert!(check_linearizability(&history).is_err());
    }
}

#[test]
fn a_write_to_a_killed_server_takes_effect_before_the_server_was_dead_or_never() {
    let killed = Operation {
        kind: OperationKind::Write(BodyVersion(1), WritePrecondition::Always),
        started_at: 0,
        finished_at: 10,
        outcome: OperationOutcome::Unknown,
    };
    let read = |started_at, found: Option<u64>| Operation {
        kind: OperationKind::Read,
        started_at,
        finished_at: started_at + 1,
        outcome: OperationOutcome::Found(found.map(BodyVersion)),
    };
    assert_eq!(check_linearizability(&[killed, read(20, None)]), Ok(()));
    assert_eq!(check_linearizability(&[killed, read(20, Some(1))]), Ok(()));
    assert_eq!(
        check_linearizability(&[killed, read(5, None), read(20, Some(1))]),
        Ok(())
    );
    assert!(check_linearizability(&[killed, read(20, None), read(22, Some(1))]).is_err());
    assert!(check_linearizability(&[killed, read(20, Some(1)), read(22, None)]).is_err());
}
