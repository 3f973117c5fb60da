//! The checker against one that tries every order, against histories that happened, and against those histories with a lie in them.

use proptest::prelude::*;

use super::{
    BodyVersion, LinearizabilityViolation, Operation, OperationKind, OperationOutcome,
    WriteCondition, check_linearizability,
};

/// Any history passes that has an order, found by trying all: the definition itself.
fn has_order(history: &[Operation], current: Option<BodyVersion>) -> bool {
    let must = |operation: &Operation| operation.outcome != OperationOutcome::Unknown;
    if !history.iter().any(must) {
        return true;
    }
    (0..history.len()).any(|first| {
        // Nothing that ended before it began may be left for later, but for what need not happen.
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

fn any_condition() -> impl Strategy<Value = WriteCondition> {
    prop_oneof![
        3 => Just(WriteCondition::Always),
        1 => Just(WriteCondition::Absent),
        1 => Just(WriteCondition::Present),
        1 => (0..6u64).prop_map(|version| WriteCondition::Matches(BodyVersion(version))),
    ]
}

fn any_change() -> impl Strategy<Value = OperationOutcome> {
    prop_oneof![
        4 => prop::option::of(any::<bool>()).prop_map(|replaced| OperationOutcome::Succeeded { replaced }),
        1 => Just(OperationOutcome::ConditionFailed),
        1 => Just(OperationOutcome::Unknown),
    ]
}

/// An operation that writes version `number` if it writes.
fn any_operation(number: u64) -> impl Strategy<Value = Operation> {
    let found = prop::option::of((0..6u64).prop_map(BodyVersion));
    let what = prop_oneof![
        2 => found.prop_map(|found| (OperationKind::Read, OperationOutcome::Found(found))),
        2 => (any_condition(), any_change())
            .prop_map(move |(condition, outcome)| (OperationKind::Write(BodyVersion(number), condition), outcome)),
        1 => (any_condition(), any_change()).prop_map(|(condition, outcome)| (OperationKind::Delete(condition), outcome)),
    ];
    (what, 0..20u64, 0..8u64).prop_map(|((action, outcome), begun, takes)| Operation {
        kind: action,
        started_at: begun,
        finished_at: begun + takes,
        outcome,
    })
}

/// Some six operations that anybody might have dreamt up.
fn any_history() -> impl Strategy<Value = Vec<Operation>> {
    (1..7usize).prop_flat_map(|count| (0..count as u64).map(any_operation).collect::<Vec<_>>())
}

/// One operation of a plan: what is asked for, how long before and after its instant it begins and ends, and whether its answer comes.
#[derive(Debug, Clone, Copy)]
struct PlannedOperation {
    /// 0 to 9: a read, a write, a delete, by what is more common.
    kind: u8,
    condition: WriteCondition,
    early: u64,
    late: u64,
    /// 0: it happens and is not answered; 1: it does not happen and is not answered; 2: its body is not sent whole.
    mishap: u8,
}

fn plans() -> impl Strategy<Value = Vec<PlannedOperation>> {
    let planned = (0..10u8, any_condition(), 0..35u64, 0..35u64, 0..30u8);
    let planned = planned.prop_map(|(kind, condition, early, late, mishap)| PlannedOperation {
        kind,
        condition,
        early,
        late,
        mishap,
    });
    prop::collection::vec(planned, 1..120)
}

/// Lets a plan happen to a register: the instants are ten ticks apart, some six operations are under way at once.
fn lived(plans: &[PlannedOperation]) -> (Vec<Operation>, Option<BodyVersion>) {
    let mut current = None;
    let mut history = Vec::new();
    for (number, plan) in (0u64..).zip(plans) {
        let instant = 1000 + number * 10;
        // A condition on a version that was there a short while ago.
        let condition = match plan.condition {
            WriteCondition::Matches(BodyVersion(back)) => {
                WriteCondition::Matches(BodyVersion(number.saturating_sub(back)))
            }
            other => other,
        };
        let action = match plan.kind {
            0..4 => OperationKind::Read,
            4..8 => OperationKind::Write(BodyVersion(number), condition),
            _ => OperationKind::Delete(condition),
        };
        let outcome = happen(action, plan.mishap, &mut current);
        history.push(Operation {
            kind: action,
            started_at: instant - plan.early,
            finished_at: instant + plan.late,
            outcome,
        });
    }
    (history, current)
}

fn happen(
    action: OperationKind,
    mishap: u8,
    current: &mut Option<BodyVersion>,
) -> OperationOutcome {
    let before = *current;
    let (condition, next) = match action {
        OperationKind::Read => return OperationOutcome::Found(before),
        OperationKind::Write(version, condition) => (condition, Some(version)),
        OperationKind::Delete(condition) => (condition, None),
    };
    let holds = condition.holds(before);
    match mishap {
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

/// Long after all of a lived history: what was unknown is over.
const AFTER: u64 = 1_000_000;

/// Operations one after another, from `AFTER` on.
fn then(history: &mut Vec<Operation>, more: &[(OperationKind, OperationOutcome)]) {
    for (n, &(action, outcome)) in (0u64..).zip(more) {
        history.push(Operation {
            kind: action,
            started_at: AFTER + 2 * n,
            finished_at: AFTER + 2 * n + 1,
            outcome,
        });
    }
}

const WRITTEN: OperationOutcome = OperationOutcome::Succeeded { replaced: None };

fn write(version: u64) -> (OperationKind, OperationOutcome) {
    (
        OperationKind::Write(BodyVersion(version), WriteCondition::Always),
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
    (OperationKind::Delete(WriteCondition::Always), WRITTEN);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn it_says_what_trying_every_order_says(history in any_history()) {
        prop_assert_eq!(check_linearizability(&history).is_ok(), has_order(&history, None));
    }
}

proptest! {
    #[test]
    fn what_happened_passes(plans in plans()) {
        let (mut history, current) = lived(&plans);
        prop_assert_eq!(check_linearizability(&history), Ok(()));
        // In whatever order it is told.
        history.reverse();
        then(&mut history, &[read(current.map(|version| version.0))]);
        prop_assert_eq!(check_linearizability(&history), Ok(()));
    }

    #[test]
    fn a_version_that_was_never_written_does_not(plans in plans(), which in any::<prop::sample::Index>()) {
        let (mut history, _) = lived(&plans);
        let reads: Vec<_> = (0..history.len()).filter(|at| history[*at].kind == OperationKind::Read).collect();
        prop_assume!(!reads.is_empty());
        let read = &mut history[reads[which.index(reads.len())]];
        read.outcome = OperationOutcome::Found(Some(BodyVersion(77_777)));
        let is_found = matches!(check_linearizability(&history), Err(LinearizabilityViolation::Impossible { .. }));
        prop_assert!(is_found);
    }

    #[test]
    fn nor_does_what_was_not_sent_whole(plans in plans()) {
        let (mut history, _) = lived(&plans);
        let (action, _) = write(800);
        then(&mut history, &[(action, OperationOutcome::Failed), read(Some(800))]);
        prop_assert!(check_linearizability(&history).is_err());
    }

    #[test]
    fn nor_does_an_old_version_after_a_newer_one_was_acknowledged(plans in plans(), old in 0..120u64) {
        let (mut history, _) = lived(&plans);
        then(&mut history, &[write(900), read(Some(old))]);
        prop_assert!(check_linearizability(&history).is_err());
    }

    #[test]
    fn nor_does_one_that_rises_after_its_deletion_was_acknowledged(plans in plans(), old in 0..120u64) {
        let (mut history, _) = lived(&plans);
        then(&mut history, &[write(900), DELETE, read(Some(900))]);
        prop_assert!(check_linearizability(&history).is_err());
        let end = history.len() - 1;
        history[end].outcome = OperationOutcome::Found(Some(BodyVersion(old)));
        prop_assert!(check_linearizability(&history).is_err());
    }

    #[test]
    fn nor_does_a_loss_of_one_that_was_acknowledged(plans in plans()) {
        let (mut history, _) = lived(&plans);
        then(&mut history, &[write(900), read(None)]);
        prop_assert!(check_linearizability(&history).is_err());
    }

    #[test]
    fn nor_do_two_that_both_replaced_the_same(plans in plans()) {
        let (mut history, _) = lived(&plans);
        let replace = |version| (OperationKind::Write(BodyVersion(version), WriteCondition::Matches(BodyVersion(900))), WRITTEN);
        then(&mut history, &[write(900), replace(901), replace(902)]);
        prop_assert!(check_linearizability(&history).is_err());
    }
}

#[test]
fn what_was_killed_may_have_happened_until_its_server_was_dead_and_not_later() {
    let killed = Operation {
        kind: OperationKind::Write(BodyVersion(1), WriteCondition::Always),
        started_at: 0,
        finished_at: 10,
        outcome: OperationOutcome::Unknown,
    };
    let read = |begun, found: Option<u64>| Operation {
        kind: OperationKind::Read,
        started_at: begun,
        finished_at: begun + 1,
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
