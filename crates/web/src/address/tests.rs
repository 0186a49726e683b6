use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::not_public;

fn is_public(address: IpAddr) -> bool {
    not_public(address).is_none()
}

/// What a registry says of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registered {
    /// Globally reachable: allowed.
    Global,
    /// Globally reachable, and refused here all the same: see the module's documentation.
    GlobalButRefused,
    NotGlobal,
}
use Registered::{Global, GlobalButRefused, NotGlobal};

/// IANA IPv4 Special-Purpose Address Registry, and the ranges of the registry of IPv4 address space that are not
/// unicast. The most specific row decides.
const IPV4: [(&str, Registered); 28] = [
    ("0.0.0.0/0", Global),
    ("0.0.0.0/8", NotGlobal),
    ("0.0.0.0/32", NotGlobal),
    ("10.0.0.0/8", NotGlobal),
    ("100.64.0.0/10", NotGlobal),
    ("127.0.0.0/8", NotGlobal),
    ("169.254.0.0/16", NotGlobal),
    ("172.16.0.0/12", NotGlobal),
    ("192.0.0.0/24", NotGlobal),
    ("192.0.0.0/29", NotGlobal),
    ("192.0.0.8/32", NotGlobal),
    ("192.0.0.9/32", GlobalButRefused),
    ("192.0.0.10/32", GlobalButRefused),
    ("192.0.0.170/32", NotGlobal),
    ("192.0.0.171/32", NotGlobal),
    ("192.0.2.0/24", NotGlobal),
    ("192.31.196.0/24", GlobalButRefused),
    ("192.52.193.0/24", GlobalButRefused),
    ("192.88.99.0/24", NotGlobal),
    ("192.168.0.0/16", NotGlobal),
    ("192.175.48.0/24", GlobalButRefused),
    ("198.18.0.0/15", NotGlobal),
    ("198.51.100.0/24", NotGlobal),
    ("203.0.113.0/24", NotGlobal),
    ("224.0.0.0/4", NotGlobal),
    ("240.0.0.0/4", NotGlobal),
    ("255.255.255.255/32", NotGlobal),
    ("168.63.129.16/32", GlobalButRefused),
];

/// IANA IPv6 Special-Purpose Address Registry; outside of 2000::/3 nothing is allocated as global unicast.
const IPV6: [(&str, Registered); 31] = [
    ("::/0", NotGlobal),
    ("2000::/3", Global),
    ("::1/128", NotGlobal),
    ("::/128", NotGlobal),
    ("64:ff9b::/96", GlobalButRefused),
    ("64:ff9b:1::/48", NotGlobal),
    ("100::/64", NotGlobal),
    ("100:0:0:1::/64", NotGlobal),
    ("2001::/23", NotGlobal),
    ("2001::/32", NotGlobal),
    ("2001:1::1/128", GlobalButRefused),
    ("2001:1::2/128", GlobalButRefused),
    ("2001:1::3/128", GlobalButRefused),
    ("2001:2::/48", NotGlobal),
    ("2001:3::/32", GlobalButRefused),
    ("2001:4:112::/48", GlobalButRefused),
    ("2001:10::/28", NotGlobal),
    ("2001:20::/28", GlobalButRefused),
    ("2001:30::/28", GlobalButRefused),
    ("2001:db8::/32", NotGlobal),
    ("2002::/16", NotGlobal),
    ("2620:4f:8000::/48", GlobalButRefused),
    ("3fff::/20", NotGlobal),
    ("5f00::/16", NotGlobal),
    ("fc00::/7", NotGlobal),
    ("fe80::/10", NotGlobal),
    // Not in the registry of special purposes: site-local (deprecated) and multicast addresses.
    ("fec0::/10", NotGlobal),
    ("ff00::/8", NotGlobal),
    ("4000::/3", NotGlobal),
    ("8000::/1", NotGlobal),
    ("::/96", NotGlobal),
];

/// First and last address of a range, and the length of its prefix.
fn bounds(text: &str) -> (u128, u128, u32) {
    let (base, length) = text.split_once('/').unwrap();
    let length: u32 = length.parse().unwrap();
    match base.parse().unwrap() {
        IpAddr::V4(base) => {
            let base = u128::from(u32::from(base));
            (base, base + ((1_u128 << (32 - length)) - 1), length)
        }
        IpAddr::V6(base) => {
            let base = u128::from(base);
            (base, base | u128::MAX.checked_shr(length).unwrap_or(0), length)
        }
    }
}

/// Whether an address may be reached by a table.
fn expected(table: &[(&str, Registered)], bits: u128) -> bool {
    let rows = table.iter().map(|(range, registered)| (bounds(range), registered));
    let of = rows.filter(|((first, last, _), _)| (*first..=*last).contains(&bits));
    *of.max_by_key(|((_, _, length), _)| *length).unwrap().1 == Global
}

fn address4(bits: u128) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(u32::try_from(bits).unwrap()))
}

fn address6(bits: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(bits))
}

/// Both ends of each range, and their neighbours outside.
fn edges(table: &[(&str, Registered)], most: u128) -> Vec<u128> {
    let bounds = table.iter().map(|(range, _)| bounds(range));
    let near = bounds.flat_map(|(first, last, _)| {
        [first.saturating_sub(1), first, first + (last - first) / 2, last, last.saturating_add(1).min(most)]
    });
    near.collect()
}

#[test]
fn ends_of_registered_ranges_are_judged_as_registered() {
    for bits in edges(&IPV4, u128::from(u32::MAX)) {
        assert_eq!(is_public(address4(bits)), expected(&IPV4, bits), "{}", address4(bits));
    }
    for bits in edges(&IPV6, u128::MAX) {
        // An IPv4 address in disguise is judged as IPv4.
        if Ipv6Addr::from(bits).to_ipv4_mapped().is_none() {
            assert_eq!(is_public(address6(bits)), expected(&IPV6, bits), "{}", address6(bits));
        }
    }
}

proptest! {
    #[test]
    fn ipv4_addresses_follow_the_registry(bits: u32) {
        let bits = u128::from(bits);
        prop_assert_eq!(is_public(address4(bits)), expected(&IPV4, bits), "{}", address4(bits));
    }

    #[test]
    fn addresses_in_registered_ipv4_ranges_follow_it(row in 1..IPV4.len(), at: u32) {
        let (first, last, _) = bounds(IPV4[row].0);
        let bits = first + u128::from(at) % (last - first + 1);
        prop_assert_eq!(is_public(address4(bits)), expected(&IPV4, bits), "{}", address4(bits));
    }

    #[test]
    fn ipv6_addresses_follow_the_registry(row in 0..IPV6.len(), at: u128) {
        let (first, last, _) = bounds(IPV6[row].0);
        let bits = if first == 0 && last == u128::MAX { at } else { first + at % (last - first + 1) };
        prop_assume!(Ipv6Addr::from(bits).to_ipv4_mapped().is_none());
        prop_assert_eq!(is_public(address6(bits)), expected(&IPV6, bits), "{}", address6(bits));
    }

    #[test]
    fn mapped_addresses_are_judged_as_ipv4(bits: u32) {
        let plain = Ipv4Addr::from(bits);
        prop_assert_eq!(is_public(plain.to_ipv6_mapped().into()), is_public(plain.into()));
    }

    /// Every way to put an IPv4 address into an IPv6 address, except a mapped one, is refused.
    #[test]
    fn ipv4_inside_ipv6_is_refused(bits: u32) {
        let (high, low) = (bits >> 16, bits & 0xffff);
        for text in [
            format!("::{high:x}:{low:x}"),
            format!("::ffff:0:{high:x}:{low:x}"),
            format!("64:ff9b::{high:x}:{low:x}"),
            format!("64:ff9b:1::{high:x}:{low:x}"),
            format!("2002:{high:x}:{low:x}::1"),
            format!("2001:0:{high:x}:{low:x}::1"),
        ] {
            let address: IpAddr = text.parse().unwrap();
            prop_assert!(!is_public(address), "{}", text);
        }
    }
}

#[test]
fn reasons_name_what_an_address_is() {
    for (address, reason) in [
        ("127.0.0.1", "an address of this machine"),
        ("::1", "an address of this machine"),
        ("10.1.2.3", "in a private network"),
        ("fd00:ec2::254", "in a private network"),
        ("169.254.169.254", "link-local"),
        ("fe80::1", "link-local"),
        ("168.63.129.16", "the address of a cloud's metadata service"),
        ("64:ff9b::a00:1", "an IPv4 address inside an IPv6 address"),
    ] {
        assert_eq!(not_public(address.parse().unwrap()), Some(reason), "{address}");
    }
    for address in
        ["1.1.1.1", "93.184.215.14", "100.63.255.255", "100.128.0.0", "2606:4700::1111", "::ffff:1.1.1.1"]
    {
        assert_eq!(not_public(address.parse().unwrap()), None, "{address}");
    }
}
