//! The functions of `expr:`, over other columns of the same row.

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StringArray, StringBuilder};
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType,
};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::schema::DataType;
use crate::text::time::{DAY_US, civil};

/// A function of `expr:`. All work on the UTC calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The day: a DATE, or text `YYYY-MM-DD`.
    Date,
    /// The year: a number, or text of four digits.
    Year,
    /// The month, 1 to 12: a number, or text of two digits.
    Month,
    /// The day of the month: a number, or text of two digits.
    Day,
    /// The hour, 0 to 23: a number, or text of two digits.
    Hour,
}

impl Function {
    pub(super) const LIST: &str = "date(c), year(c), month(c), day(c), hour(c)";

    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "date" => Function::Date,
            "year" => Function::Year,
            "month" => Function::Month,
            "day" => Function::Day,
            "hour" => Function::Hour,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Function::Date => "date",
            Function::Year => "year",
            Function::Month => "month",
            Function::Day => "day",
            Function::Hour => "hour",
        }
    }

    /// May it be applied to `argument` and stored in `result`?
    pub(super) fn fits(self, argument: &DataType, result: &DataType) -> Result<(), String> {
        use DataType as D;
        let name = self.name();
        match argument {
            D::Timestamp(_) | D::TimestampLtz(_) => {}
            D::Date if self != Function::Hour => {}
            D::Time(_) if self == Function::Hour => {}
            other if self == Function::Hour => return Err(format!("hour needs a TIMESTAMP or TIME column, and this one is {other}")),
            other => return Err(format!("{name} needs a TIMESTAMP or DATE column, and this one is {other}")),
        }
        let width = match self {
            Function::Date => 10,
            Function::Year => 4,
            _ => 2,
        };
        match result {
            D::String => Ok(()),
            D::Char(n) | D::VarChar(n) if *n >= width => Ok(()),
            D::Char(_) | D::VarChar(_) => Err(format!("{name} gives {width} characters, and the column is {result}")),
            D::Date if self == Function::Date => Ok(()),
            D::SmallInt | D::Int | D::BigInt if self != Function::Date => Ok(()),
            D::TinyInt if !matches!(self, Function::Date | Function::Year) => Ok(()),
            other if self == Function::Date => Err(format!("date gives DATE or STRING, and the column is {other}")),
            other => Err(format!("{name} gives a whole number (INT) or STRING, and the column is {other}")),
        }
    }

    /// Applies it to each row; null gives null.
    pub(super) fn apply(self, argument: &ArrayRef, result: &DataType) -> Result<ArrayRef> {
        use DataType as D;
        let moments = Moments::of(argument)?;
        Ok(match result {
            D::Date => Arc::new(moments.numbers::<Date32Type>(|m| m.day)),
            D::TinyInt => Arc::new(moments.numbers::<Int8Type>(|m| i8::try_from(self.number(m)).unwrap_or(i8::MAX))),
            D::SmallInt => Arc::new(moments.numbers::<Int16Type>(|m| i16::try_from(self.number(m)).unwrap_or(i16::MAX))),
            D::Int => Arc::new(moments.numbers::<Int32Type>(|m| self.number(m))),
            D::BigInt => Arc::new(moments.numbers::<Int64Type>(|m| i64::from(self.number(m)))),
            _ => Arc::new(self.texts(&moments)),
        })
    }

    fn number(self, moment: Moment) -> i32 {
        let (year, month, day) = civil(moment.day);
        match self {
            Function::Date => moment.day,
            Function::Year => year,
            Function::Month => month.cast_signed(),
            Function::Day => day.cast_signed(),
            Function::Hour => moment.hour,
        }
    }

    fn texts(self, moments: &Moments) -> StringArray {
        let mut out = StringBuilder::with_capacity(moments.len(), moments.len() * 10);
        // neighbours are mostly of the same day, so the text is made once
        let (mut last, mut text) = (None, String::new());
        for i in 0..moments.len() {
            let Some(moment) = moments.get(i) else {
                out.append_null();
                continue;
            };
            if last != Some(moment) {
                last = Some(moment);
                text.clear();
                let (year, month, day) = civil(moment.day);
                let _ = match self {
                    Function::Date => write!(text, "{year:04}-{month:02}-{day:02}"),
                    Function::Year => write!(text, "{year:04}"),
                    _ => write!(text, "{:02}", self.number(moment)),
                };
            }
            out.append_value(&text);
        }
        out.finish()
    }
}

/// Day and hour of a moment, all that the functions look at.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Moment {
    day: i32,
    hour: i32,
}

enum Moments<'a> {
    Days(&'a PrimitiveArray<Date32Type>),
    Millis(&'a PrimitiveArray<TimestampMillisecondType>),
    Micros(&'a PrimitiveArray<TimestampMicrosecondType>),
    Nanos(&'a PrimitiveArray<TimestampNanosecondType>),
    /// Of a day, which is then 1970-01-01; only `hour` looks at it.
    Time(&'a PrimitiveArray<Time32MillisecondType>),
}

impl<'a> Moments<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self> {
        let found = [
            array.as_primitive_opt().map(Moments::Days),
            array.as_primitive_opt().map(Moments::Millis),
            array.as_primitive_opt().map(Moments::Micros),
            array.as_primitive_opt().map(Moments::Nanos),
            array.as_primitive_opt().map(Moments::Time),
        ];
        let found = found.into_iter().flatten().next();
        found.ok_or_else(|| Error::internal(format!("an expr over {}", array.data_type())))
    }
    fn len(&self) -> usize {
        match self {
            Moments::Days(a) => a.len(),
            Moments::Millis(a) => a.len(),
            Moments::Micros(a) => a.len(),
            Moments::Nanos(a) => a.len(),
            Moments::Time(a) => a.len(),
        }
    }
    fn get(&self, i: usize) -> Option<Moment> {
        let split = |v: i64, day: i64| Moment {
            day: i32::try_from(v.div_euclid(day)).unwrap_or(i32::MAX),
            hour: i32::try_from(v.rem_euclid(day) / (day / 24)).unwrap_or(0),
        };
        match self {
            Moments::Days(a) => a.is_valid(i).then(|| Moment { day: a.value(i), hour: 0 }),
            Moments::Millis(a) => a.is_valid(i).then(|| split(a.value(i), DAY_US / 1000)),
            Moments::Micros(a) => a.is_valid(i).then(|| split(a.value(i), DAY_US)),
            Moments::Nanos(a) => a.is_valid(i).then(|| split(a.value(i), DAY_US * 1000)),
            Moments::Time(a) => a.is_valid(i).then(|| split(a.value(i).into(), DAY_US / 1000)),
        }
    }
    fn numbers<T: ArrowPrimitiveType>(&self, f: impl Fn(Moment) -> T::Native) -> PrimitiveArray<T> {
        (0..self.len()).map(|i| self.get(i).map(&f)).collect()
    }
}
