//! Profiles: facts about a user in lists of short sentences. Each user has one, at first empty.

use chrono::{DateTime, Utc};
use houston_domain::id::UserId;
use houston_domain::profile::{Profile, ProfileChange, ProfileChangeError, ProfileList};

use super::Knowledge;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::row_security::with_connection;

impl Knowledge<'_> {
    /// The profile, and when it was last changed; `None`: never.
    pub async fn profile(&mut self) -> Result<(Profile, Option<DateTime<Utc>>)> {
        let row = sqlx::query!(
            r#"-- store::profile::find
            select p.facts as "facts?", p.preferences as "preferences?", p.communication_style as "communication_style?",
                   p.interests as "interests?", p.aims as "aims?", p.untrusted as "untrusted?", p.updated_at as "updated_at?"
              from houston.users u left join houston.profiles p on p.user_id = u.id
             where u.tenant_id = $1 and u.id = $2"#,
            self.tenant.0,
            self.user()
        )
        .fetch_optional(&mut *self.connection)
        .await?
        .ok_or(Error::NotFound { what: "user" })?;
        let profile = Profile {
            facts: row.facts.unwrap_or_default(),
            preferences: row.preferences.unwrap_or_default(),
            communication_style: row.communication_style.unwrap_or_default(),
            interests: row.interests.unwrap_or_default(),
            aims: row.aims.unwrap_or_default(),
            untrusted: row.untrusted.unwrap_or_default(),
        };
        Ok((profile, row.updated_at))
    }

    /// Locks and reads the profile; it cannot change until the transaction ends.
    pub async fn lock_profile(&mut self) -> Result<Profile> {
        // The row is inserted before it is locked, so that two concurrent first writes lock the same row.
        sqlx::query!(
            "-- store::profile::ensure
            insert into houston.profiles (user_id, tenant_id)
            select id, tenant_id from houston.users where tenant_id = $1 and id = $2 on conflict do nothing",
            self.tenant.0,
            self.user()
        )
        .execute(&mut *self.connection)
        .await?;
        sqlx::query!(
            "-- store::profile::lock
            select user_id from houston.profiles where tenant_id = $1 and user_id = $2 for no key update",
            self.tenant.0,
            self.user()
        )
        .fetch_optional(&mut *self.connection)
        .await?
        .ok_or(Error::NotFound { what: "user" })?;
        Ok(self.profile().await?.0)
    }

    /// Changes a list of a profile, which [`Self::lock_profile`] has locked, as far as the limits allow. What a session writes
    /// that has read what strangers wrote is marked.
    ///
    /// # Errors
    /// [`ProfileChangeError`]; the profile is unchanged.
    pub fn change_profile(
        &self,
        profile: &mut Profile,
        list: ProfileList,
        change: &ProfileChange,
    ) -> std::result::Result<(), ProfileChangeError> {
        profile.change(list, change, self.limits.max_profile_entries, self.untrusted)
    }

    /// Writes the profile that [`Self::lock_profile`] has locked. Returns the time of the change.
    pub async fn write_profile(&mut self, profile: &Profile) -> Result<DateTime<Utc>> {
        let row = sqlx::query!(
            "-- store::profile::write
            update houston.profiles
               set facts = $3, preferences = $4, communication_style = $5, interests = $6, aims = $7, untrusted = $8,
                   updated_at = statement_timestamp()
             where tenant_id = $1 and user_id = $2
            returning updated_at",
            self.tenant.0,
            self.user(),
            &profile.facts,
            &profile.preferences,
            &profile.communication_style,
            &profile.interests,
            &profile.aims,
            &profile.untrusted
        );
        Ok(row.fetch_one(&mut *self.connection).await?.updated_at)
    }
}

impl TenantStore<'_> {
    /// The profile of a user of the tenant, and when it was last changed; `None`: never.
    pub async fn profile(self, user: UserId) -> Result<(Profile, Option<DateTime<Utc>>)> {
        Ok(with_connection!(self.pool, |c| self.knowledge_of(user, c).profile()))
    }

    /// Replaces these lists of the profile. An entry that stays as it was keeps its mark. Returns the profile and the time of the change.
    pub async fn change_profile(
        self,
        user: UserId,
        lists: Vec<(ProfileList, Vec<String>)>,
    ) -> Result<(Profile, DateTime<Utc>)> {
        let mut tx = self.pool.begin().await?;
        let mut profile = self.knowledge_of(user, &mut tx).lock_profile().await?;
        for (list, entries) in lists {
            *profile.list_mut(list) = entries;
        }
        profile.forget_marks();
        let at = self.knowledge_of(user, &mut tx).write_profile(&profile).await?;
        tx.commit().await?;
        Ok((profile, at))
    }

    /// Empties the profile of a user of the tenant.
    pub async fn delete_profile(self, user: UserId) -> Result<()> {
        let row = sqlx::query!(
            r#"-- store::profile::delete
            with gone as (delete from houston.profiles where tenant_id = $1 and user_id = $2)
            select exists (select from houston.users where tenant_id = $1 and id = $2) as "found!""#,
            self.tenant.0,
            user.0
        );
        if row.fetch_one(&self.pool).await?.found { Ok(()) } else { Err(Error::NotFound { what: "user" }) }
    }
}
