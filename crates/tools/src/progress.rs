//! [`Progress`]: how far a call is, for people who watch. Reports are displayed while they are new, and stored nowhere.

use std::sync::Arc;

use houston_domain::id::MessageId;
use houston_domain::masks::Masks;

/// The most characters of a message.
const MAX_MESSAGE: usize = 200;

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// So much is done; finite, not negative.
    pub progress: f64,
    /// Of so much, if there is a total; finite, positive.
    pub total: Option<f64>,
    /// What is done now: one line, at most 200 characters; empty: not said.
    pub message: String,
}

/// Who passes reports on. It drops those that come too fast.
pub trait Reports: Send + Sync {
    /// Passes a report on. Does not block.
    fn report(&self, report: Report);

    /// Whether a report would be passed on now.
    fn is_due(&self) -> bool;

    /// The call runs, and this thread message is its cell. Before that no report is passed on.
    fn runs_as(&self, cell: MessageId);
}

/// Reports to people who watch how far a call is. Cheap to clone; costs nothing until it is used.
#[derive(Clone, Default)]
pub struct Progress {
    reports: Option<Arc<dyn Reports>>,
    /// The secrets of the call, which messages may echo.
    masks: Option<Arc<Masks>>,
}

impl Progress {
    /// A handle whose reports are passed on.
    pub fn to(reports: Arc<dyn Reports>) -> Self {
        Self { reports: Some(reports), masks: None }
    }

    /// The same, whose messages are without these secrets.
    #[must_use]
    pub fn without(self, masks: Masks) -> Self {
        let masks = (!masks.is_empty()).then(|| Arc::new(masks));
        Self { masks, ..self }
    }

    /// The call runs, and this thread message is its cell.
    pub fn runs_as(&self, cell: MessageId) {
        if let Some(reports) = &self.reports {
            reports.runs_as(cell);
        }
    }

    /// Reports that `progress` of `total` is done. Reports that come too fast, and numbers that are none, are dropped; a
    /// message is cut, and loses line breaks and invisible characters.
    pub fn report(&self, progress: f64, total: Option<f64>, message: &str) {
        let Some(reports) = self.reports.as_ref().filter(|reports| reports.is_due()) else { return };
        if !progress.is_finite() || progress < 0.0 {
            return;
        }
        let total = total.filter(|total| total.is_finite() && *total > 0.0);
        let masked = self.masks.as_ref().map(|masks| masks.text(message));
        let message = one_line(masked.as_deref().unwrap_or(message));
        reports.report(Report { progress, total, message });
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}

fn one_line(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(u32::from(c), 0xAD | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xE0000..=0xE0FFF)
    };
    let line: String = text
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| !is_hidden(*c))
        .take(MAX_MESSAGE)
        .collect();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Report>>);

    impl Reports for Kept {
        fn report(&self, report: Report) {
            self.0.lock().unwrap().push(report);
        }

        fn is_due(&self) -> bool {
            true
        }

        fn runs_as(&self, _: MessageId) {}
    }

    #[test]
    fn reports_have_real_numbers_and_one_short_line() {
        let kept = Arc::new(Kept::default());
        let progress = Progress::to(kept.clone());
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            progress.report(wrong, None, "");
        }
        progress.report(1.0, Some(0.0), &format!("a\nb\u{200b}\u{1b}[31m{}", "x".repeat(300)));
        let reports = kept.0.lock().unwrap();
        assert_eq!(reports.len(), 1);
        assert_eq!((reports[0].progress, reports[0].total), (1.0, None));
        assert!(reports[0].message.starts_with("a b[31mxx") && reports[0].message.chars().count() == 200);
        Progress::default().report(1.0, None, "no listener");
    }
}
