//! The highest value of late.

/// The highest values of the present period and of the one before it. So a value is remembered for
/// one to two periods. The user decides when a period ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecentMax<T> {
    present: T,
    before: T,
}

impl<T: Copy + Default + PartialOrd> RecentMax<T> {
    /// Notes a value.
    pub fn note(&mut self, value: T) {
        if value > self.present {
            self.present = value;
        }
    }

    /// Begins the next period.
    pub fn end_period(&mut self) {
        self.before = core::mem::take(&mut self.present);
    }

    /// Returns the highest value of the present period.
    pub fn present(&self) -> T {
        self.present
    }

    /// Returns the highest value of the present period and the one before it.
    pub fn get(&self) -> T {
        match self.present > self.before {
            true => self.present,
            false => self.before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_forgotten_after_the_second_period() {
        let mut max = RecentMax::default();
        [3, 7, 5].into_iter().for_each(|value| max.note(value));
        assert_eq!(max.get(), 7);
        max.end_period();
        max.note(4);
        assert_eq!(max.get(), 7);
        max.end_period();
        assert_eq!(max.get(), 4);
    }
}
