//! Reads settings from the merged values with serde.

use std::collections::btree_map;
use std::iter::Enumerate;
use std::slice;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::explain::Error;
use super::layers::{Node, Value};

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => visitor.visit_i64(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_str(text),
            Value::List(list) => visitor.visit_seq(Items(list.iter().enumerate())),
            Value::Table(table) => visitor.visit_map(Fields { rest: table.iter(), at: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.value {
            Value::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            Value::Table(table) => {
                visitor.visit_enum(MapAccessDeserializer::new(Fields { rest: table.iter(), at: None }))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Items<'v>(Enumerate<slice::Iter<'v, Node>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((nth, node)) = self.0.next() else { return Ok(None) };
        seed.deserialize(node).map(Some).map_err(|error| error.within(&nth.to_string(), &node.origin))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Fields<'v> {
    rest: btree_map::Iter<'v, String, Node>,
    at: Option<(&'v String, &'v Node)>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.at = self.rest.next();
        let Some((key, node)) = self.at else { return Ok(None) };
        let key_of = seed.deserialize(key.as_str().into_deserializer());
        key_of.map(Some).map_err(|error: Error| error.within(key, &node.origin))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some((key, node)) = self.at else { return Err(Error::custom("a value without its key")) };
        seed.deserialize(node).map_err(|error| error.within(key, &node.origin))
    }
}
