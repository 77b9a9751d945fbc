//! Members of an organization: the users that its tokens authenticate.
//!
//! A member is not a [`crate::Resource`]: at least one admin must remain, so a write may depend on a second member.
//! This file produces a [`MemberWrite`], which a store executes as one conditional write of both rows.

use crate::fields::check_name;
use folio_types::{Code, Error, Reason, Result, Role, Timestamp, UnknownFields, UserId};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub user: UserId,
    /// Display name, such as an e-mail address.
    pub name: String,
    /// Upper bound of the roles of the member's tokens.
    pub role: Role,
    pub created_at: Timestamp,
    /// Time of removal; tokens of a removed member are refused. None: not removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<Timestamp>,
    #[serde(skip)]
    pub unknown: UnknownFields,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberChange {
    /// Adds a user that is not a member or was removed. No effect if the member has this name and role; `NAME_TAKEN` if
    /// it has others. The name is for display.
    Add { name: String, role: Role },
    /// None: unchanged.
    Update { name: Option<String>, role: Option<Role> },
    /// Removes the member. No effect on a removed member.
    Remove,
    /// Makes a current or removed member an admin.
    Restore,
    /// Removes a current or removed member together with its display name, because its user was deleted.
    Erase,
}

/// Display name of a member whose user was deleted.
const ERASED_NAME: &str = "deleted user";

impl MemberChange {
    /// # Errors
    /// `INVALID_FIELD` if the name is invalid.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Add { name, .. } | Self::Update { name: Some(name), .. } => check_name("member.name", name),
            Self::Update { name: None, .. } | Self::Remove | Self::Restore | Self::Erase => Ok(()),
        }
    }
}

impl Member {
    /// Returns the maximum role of a user by its stored member. A removed member counts as a viewer; a user that never
    /// was a member is not bounded.
    pub fn role_max(stored: Option<&Self>) -> Role {
        match stored {
            Some(member) if member.removed_at.is_some() => Role::Viewer,
            Some(member) => member.role,
            None => Role::Admin,
        }
    }

    pub fn new(user: UserId, name: &str, role: Role, created_at: Timestamp) -> Self {
        let (name, unknown) = (name.to_owned(), UnknownFields::default());
        Self { user, name, role, created_at, removed_at: None, unknown }
    }

    /// Returns the member after a change. `before` is the stored member, which may be removed.
    ///
    /// # Errors
    /// `INVALID_FIELD`, `NOT_FOUND`, or `NAME_TAKEN` (see [`MemberChange::Add`]).
    pub fn after(user: &UserId, change: &MemberChange, before: Option<&Self>, at: Timestamp) -> Result<Self> {
        change.check()?;
        let live = before.filter(|before| before.removed_at.is_none());
        let not_found = || Error::not_found("member", user);
        match change {
            MemberChange::Add { name, role } => match live {
                None => Ok(Self::new(user.clone(), name, *role, at)),
                Some(live) if (&live.name, live.role) == (name, *role) => Ok(live.clone()),
                Some(_) => {
                    let message = "the user is a member with another name or role; use UpdateMember";
                    Err(Error::new(Code::AlreadyExists, Reason::NameTaken, message))
                }
            },
            MemberChange::Update { name, role } => {
                let live = live.ok_or_else(not_found)?.clone();
                Ok(Self { name: name.clone().unwrap_or(live.name), role: role.unwrap_or(live.role), ..live })
            }
            MemberChange::Remove => {
                let before = before.ok_or_else(not_found)?.clone();
                Ok(Self { removed_at: before.removed_at.or(Some(at)), ..before })
            }
            MemberChange::Erase => {
                let before = before.ok_or_else(not_found)?.clone();
                Ok(Self { name: ERASED_NAME.to_owned(), removed_at: before.removed_at.or(Some(at)), ..before })
            }
            MemberChange::Restore => {
                Ok(Self { role: Role::Admin, removed_at: None, ..before.ok_or_else(not_found)?.clone() })
            }
        }
    }

    /// Returns true for admins that were not removed.
    pub fn is_admin(&self) -> bool {
        self.role == Role::Admin && self.removed_at.is_none()
    }
}

/// Conditional write of one member. It is executed only if `before` and `guard` equal the stored rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberWrite {
    /// The member as read. None: the user was never a member.
    pub before: Option<Member>,
    pub after: Member,
    /// Another admin as read, required if this write takes the admin role from a member.
    pub guard: Option<Member>,
}

impl MemberWrite {
    pub fn unguarded(before: Option<Member>, after: Member) -> Self {
        Self { before, after, guard: None }
    }

    /// Returns true if the write takes the admin role from a member.
    pub fn needs_guard(&self) -> bool {
        self.before.as_ref().is_some_and(Member::is_admin) && !self.after.is_admin()
    }

    /// Sets another admin among `members` as the guard.
    ///
    /// # Errors
    /// `IN_USE` if there is no other admin.
    pub fn guarded_by(self, members: Vec<Member>) -> Result<Self> {
        let other = members.into_iter().find(|member| member.is_admin() && member.user != self.after.user);
        let message = "an organization keeps at least one admin; make another member an admin first";
        let other = other.ok_or_else(|| Error::precondition(Reason::InUse, message))?;
        Ok(Self { guard: Some(other), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn user(name: &str) -> UserId {
        UserId::derive(&[name])
    }

    fn member(name: &str, role: Role) -> Member {
        Member::new(user(name), name, role, at(1))
    }

    #[test]
    fn the_role_of_a_member_bounds_a_user_and_a_removed_member_is_a_viewer() {
        let current = member("ann", Role::Admin);
        let removed = Member { removed_at: Some(at(2)), ..current.clone() };
        let bounds = [None, Some(&current), Some(&member("bob", Role::Member)), Some(&removed)].map(Member::role_max);
        assert_eq!(bounds, [Role::Admin, Role::Admin, Role::Member, Role::Viewer]);
    }

    fn after(change: &MemberChange, before: Option<&Member>) -> Result<Member> {
        Member::after(&user("ann"), change, before, at(9))
    }

    #[test]
    fn a_user_is_added_once_and_again_after_a_removal() {
        let add = MemberChange::Add { name: "ann".into(), role: Role::Member };
        let new = after(&add, None).unwrap();
        assert_eq!(new, Member { created_at: at(9), ..member("ann", Role::Member) });
        let ann = member("ann", Role::Member);
        assert_eq!(after(&add, Some(&ann)).unwrap(), ann, "the same name and role");
        for other in [member("ann", Role::Admin), Member { name: "anna".into(), ..ann.clone() }] {
            assert_eq!(after(&add, Some(&other)).unwrap_err().reason, Reason::NameTaken);
        }
        let removed = after(&MemberChange::Remove, Some(&ann)).unwrap();
        assert_eq!(removed, Member { removed_at: Some(at(9)), ..ann });
        assert_eq!(after(&add, Some(&removed)).unwrap(), new);
    }

    #[test]
    fn an_update_keeps_the_fields_outside_its_mask() {
        let ann = member("ann", Role::Member);
        let update = |name: Option<&str>, role| MemberChange::Update { name: name.map(str::to_owned), role };
        let renamed = after(&update(Some("anna"), None), Some(&ann)).unwrap();
        assert_eq!(renamed, Member { name: "anna".into(), ..ann.clone() });
        let lowered = after(&update(None, Some(Role::Viewer)), Some(&ann)).unwrap();
        assert_eq!(lowered, Member { role: Role::Viewer, ..ann.clone() });
        assert_eq!(after(&update(Some(" "), None), Some(&ann)).unwrap_err().violations[0].field, "member.name");
        let removed = after(&MemberChange::Remove, Some(&ann)).unwrap();
        for (change, before) in [
            (update(None, None), None),
            (update(None, None), Some(&removed)),
            (MemberChange::Remove, None),
            (MemberChange::Restore, None),
            (MemberChange::Erase, None),
        ] {
            assert_eq!(after(&change, before).unwrap_err().reason, Reason::NotFound, "{change:?}");
        }
        assert_eq!(after(&MemberChange::Remove, Some(&removed)).unwrap(), removed, "removed before");
        assert_eq!(after(&MemberChange::Restore, Some(&removed)).unwrap(), member("ann", Role::Admin));
        for before in [&ann, &removed] {
            let erased = after(&MemberChange::Erase, Some(before)).unwrap();
            assert_eq!(erased, Member { name: "deleted user".into(), ..removed.clone() });
        }
    }

    #[test]
    fn one_admin_remains() {
        let (ann, bob) = (member("ann", Role::Admin), member("bob", Role::Admin));
        let lowered = Member { role: Role::Viewer, ..ann.clone() };
        let removed = Member { removed_at: Some(at(9)), ..ann.clone() };
        for after in [lowered.clone(), removed.clone()] {
            let write = MemberWrite::unguarded(Some(ann.clone()), after);
            assert!(write.needs_guard());
            let without_other_admin =
                [ann.clone(), member("cid", Role::Member), Member { removed_at: Some(at(2)), ..bob.clone() }];
            assert_eq!(write.clone().guarded_by(without_other_admin.to_vec()).unwrap_err().reason, Reason::InUse);
            let guarded = write.guarded_by(vec![ann.clone(), bob.clone()]).unwrap();
            assert_eq!(guarded.guard, Some(bob.clone()));
        }
        for (before, after) in [
            (None, ann.clone()),
            (Some(lowered.clone()), ann.clone()),
            (Some(removed.clone()), lowered),
            (Some(ann.clone()), Member { name: "anna".into(), ..ann }),
        ] {
            assert!(!MemberWrite::unguarded(before, after).needs_guard());
        }
    }
}
