//! Orders as a web shop would write them, made up from a seed: the same ones every time. One in a thousand is broken.

use crate::cli::child::moments::Draw;

/// One order in so many is broken.
const ONE_IN: u64 = 1000;
/// The orders are of so many days, from this one.
const DAYS: u64 = 3;
const FIRST_DAY: u64 = 5;
/// Milliseconds since 1970 of 2026-01-05 UTC.
const FIRST_MS: u64 = 1_767_571_200_000;
const DAY_MS: u64 = 86_400_000;
/// An order comes up to so many milliseconds later than its place in the stream says.
const LATE_MS: u64 = 30_000;

const CUSTOMERS: [(&str, &str); 12] = [
    ("Anna Schmidt", "DE"),
    ("Zoë Müller", "DE"),
    ("José Ñandú", "ES"),
    ("Łukasz Wójcik", "PL"),
    ("佐藤 花子", "JP"),
    ("Olivia Brown", "GB"),
    ("Amélie Lefèvre", "FR"),
    ("Noah Johnson", "US"),
    ("Priya Nair", "IN"),
    ("Björn Åkesson", "SE"),
    ("João Conceição", "BR"),
    ("Иван Петров", "BG"),
];
const GOODS: [(&str, u64); 10] = [
    ("MUG-07", 1250),
    ("TEA-21", 499),
    ("LAMP-3", 8900),
    ("BOOK-112", 1995),
    ("CHAIR-9", 14900),
    ("PEN-1", 190),
    ("BAG-44", 5450),
    ("SOCKS-5", 799),
    ("KNIFE-2", 3275),
    ("POSTER-8", 1500),
];
/// As JSON. The text "null" and the empty text are no nulls.
const NOTES: [&str; 8] = [
    "null",
    "\"please leave it with the neighbour\"",
    "\"für Oma, bitte als Geschenk 🎁\"",
    "\"ring twice, the bell is \\\"temperamental\\\"\"",
    "\"お急ぎください\"",
    "\"\"",
    "\"null\"",
    "\"étage 3, porte à gauche\\nmerci\"",
];
const STATUSES: [&str; 4] = ["new", "paid", "shipped", "returned"];

/// What can be wrong with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    CutOff,
    ErrorPage,
    NoId,
    TextForAmount,
    NegativeAmount,
    UnknownStatus,
    NoSuchDay,
    NoSku,
}

impl Flaw {
    pub(super) const ALL: [Flaw; 8] = [
        Flaw::CutOff,
        Flaw::NoId,
        Flaw::NegativeAmount,
        Flaw::TextForAmount,
        Flaw::UnknownStatus,
        Flaw::NoSuchDay,
        Flaw::ErrorPage,
        Flaw::NoSku,
    ];

    /// The stage at which such an order is found to be no row.
    pub(super) fn stage(self) -> &'static str {
        match self {
            Flaw::CutOff | Flaw::ErrorPage => "decode",
            Flaw::NoId | Flaw::TextForAmount | Flaw::NoSuchDay | Flaw::NoSku => "cast",
            Flaw::NegativeAmount | Flaw::UnknownStatus => "constraint",
        }
    }
}

/// What is known of an order besides its JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// 0 to partitions - 1.
    pub(super) partition: u64,
    /// None: it must become a row.
    pub(super) flaw: Option<Flaw>,
    /// The amount, where it must become a row.
    pub(super) cents: u64,
    /// When it was made, milliseconds since 1970-01-01 UTC.
    pub(super) time_ms: u64,
}

/// All orders of a seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orders {
    pub(super) seed: u64,
    pub(super) count: u64,
    pub(super) partitions: u64,
}

impl Orders {
    fn draw(&self, of: u64) -> Draw {
        Draw(self.seed ^ of.wrapping_add(1).wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// One in each thousand; the kinds in turn.
    fn flaw(&self, i: u64) -> Option<Flaw> {
        let block = i / ONE_IN;
        let broken = self.draw(!block).next() % ONE_IN;
        (i % ONE_IN == broken).then(|| Flaw::ALL[(block % Flaw::ALL.len() as u64) as usize])
    }

    /// Writes order `i` (from 0) into `json` alone.
    pub(super) fn write(&self, i: u64, json: &mut Vec<u8>) -> Order {
        let mut draw = self.draw(i);
        let flaw = self.flaw(i);
        let partition = draw.next() % self.partitions;
        let span = DAYS * DAY_MS - LATE_MS;
        let time = ((u128::from(i) * u128::from(span) / u128::from(self.count.max(1))) as u64) + draw.next() % LATE_MS;
        let order = |cents| Order { partition, flaw, cents, time_ms: FIRST_MS + time };
        json.clear();
        if flaw == Some(Flaw::ErrorPage) {
            json.extend_from_slice(b"<html><body><h1>502 Bad Gateway</h1></body></html>");
            return order(0);
        }
        json.push(b'{');
        if flaw != Some(Flaw::NoId) {
            json.extend_from_slice(b"\"id\":");
            number(i + 1, json);
            json.push(b',');
        }
        let (name, country) = CUSTOMERS[draw.below(CUSTOMERS.len())];
        text(json, &["\"customer\":{\"name\":\"", name, "\",\"country\":\"", country, "\"},\"status\":\""]);
        let status = if flaw == Some(Flaw::UnknownStatus) { "teleported" } else { STATUSES[draw.below(STATUSES.len())] };
        text(json, &[status, "\",\"items\":["]);
        let cents = items(&mut draw, flaw, json);
        text(json, &["],\"amount\":"]);
        match flaw {
            Some(Flaw::TextForAmount) => text(json, &["\"twelve euros\""]),
            Some(Flaw::NegativeAmount) => {
                json.push(b'-');
                money(cents.max(1), json);
            }
            _ => money(cents, json),
        }
        text(json, &[",\"created_at\":\""]);
        moment(time, flaw, json);
        json.push(b'"');
        // A third have no note at all.
        if let Some(note) = NOTES.get(draw.below(NOTES.len() + 4)) {
            text(json, &[",\"note\":", note]);
        }
        json.push(b'}');
        if flaw == Some(Flaw::CutOff) {
            json.truncate(json.len() * 2 / 3);
            // Not in the middle of a character: it is the JSON that is broken.
            while json.last().is_some_and(|byte| !byte.is_ascii()) {
                json.pop();
            }
        }
        order(cents)
    }
}

/// One to four items; their sum.
fn items(draw: &mut Draw, flaw: Option<Flaw>, json: &mut Vec<u8>) -> u64 {
    let mut cents = 0;
    for at in 0..=draw.below(4) {
        let (sku, price) = GOODS[draw.below(GOODS.len())];
        let quantity = draw.next() % 5 + 1;
        cents += price * quantity;
        if at > 0 {
            json.push(b',');
        }
        json.push(b'{');
        if flaw != Some(Flaw::NoSku) {
            text(json, &["\"sku\":\"", sku, "\","]);
        }
        text(json, &["\"quantity\":"]);
        number(quantity, json);
        text(json, &[",\"price\":"]);
        money(price, json);
        json.push(b'}');
    }
    cents
}

fn moment(time: u64, flaw: Option<Flaw>, json: &mut Vec<u8>) {
    let (day, ms) = (time / DAY_MS, time % DAY_MS);
    if flaw == Some(Flaw::NoSuchDay) {
        text(json, &["2026-02-30T"]);
    } else {
        text(json, &["2026-01-0"]);
        number(FIRST_DAY + day, json);
        json.push(b'T');
    }
    for (unit, width, after) in [(ms / 3_600_000, 2, b':'), (ms / 60_000 % 60, 2, b':'), (ms / 1000 % 60, 2, b'.'), (ms % 1000, 3, b'Z')] {
        padded(unit, width, json);
        json.push(after);
    }
}

fn text(json: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| json.extend_from_slice(part.as_bytes()));
}

/// `12.50`.
fn money(cents: u64, json: &mut Vec<u8>) {
    number(cents / 100, json);
    json.push(b'.');
    padded(cents % 100, 2, json);
}

/// In digits.
pub(super) fn number(n: u64, json: &mut Vec<u8>) {
    padded(n, 1, json);
}

/// With zeros before it. There are a dozen numbers in each order, and a million orders: the formatter would cost a second.
fn padded(mut n: u64, width: usize, json: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while n > 0 {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
    }
    json.extend_from_slice(&digits[at.min(digits.len() - width)..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: Orders = Orders { seed: 7, count: 20_000, partitions: 16 };

    #[test]
    fn a_seed_gives_the_same_orders_and_another_one_others() {
        let all = |seed| {
            let (mut json, orders) = (Vec::new(), Orders { seed, ..ORDERS });
            (0..500).map(|i| (orders.write(i, &mut json), json.clone())).collect::<Vec<_>>()
        };
        assert_eq!(all(7), all(7));
        assert_ne!(all(7), all(8));
    }

    #[test]
    fn one_in_a_thousand_is_broken_in_each_way_in_turn_and_the_others_add_up() {
        let mut json = Vec::new();
        let mut flaws = Vec::new();
        for i in 0..ORDERS.count {
            let order = ORDERS.write(i, &mut json);
            assert!(order.partition < 16);
            flaws.extend(order.flaw);
            if order.flaw.is_some() {
                continue;
            }
            let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(value["id"], i + 1);
            let sum: f64 =
                value["items"].as_array().unwrap().iter().map(|x| x["quantity"].as_f64().unwrap() * x["price"].as_f64().unwrap()).sum();
            assert!((sum - order.cents as f64 / 100.0).abs() < 1e-6 && (value["amount"].as_f64().unwrap() - sum).abs() < 1e-6, "{value}");
            let created = chrono::DateTime::parse_from_rfc3339(value["created_at"].as_str().unwrap()).unwrap();
            assert_eq!(created.timestamp_millis().cast_unsigned(), order.time_ms);
        }
        assert_eq!(flaws.len(), 20);
        assert_eq!(flaws[..8], Flaw::ALL);
    }

    #[test]
    fn numbers_are_written_as_they_are() {
        let mut json = Vec::new();
        for (n, width) in [(0, 1), (7, 2), (1234, 2), (u64::MAX, 1)] {
            padded(n, width, &mut json);
            json.push(b' ');
        }
        money(5, &mut json);
        assert_eq!(String::from_utf8(json).unwrap(), "0 07 1234 18446744073709551615 0.05");
    }
}
