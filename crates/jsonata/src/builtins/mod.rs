//! The functions of the language: name, how many parameters the reference's implementation has (which tells what it is
//! given as a callback), and signature.

mod array;
mod higher_order;
mod number;
mod object;
mod string;
mod time;

use std::rc::Rc;
use std::sync::OnceLock;

pub use number::round_to;

use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::function::Function;
use crate::signature::Signature;
use crate::value::Value;

pub struct Builtin {
    pub name: &'static str,
    pub arity: usize,
    signature: &'static str,
    pub function: fn(&mut Evaluator, &[Value], &Value) -> Result<Value, Error>,
    parsed: OnceLock<Option<Signature>>,
}

impl std::fmt::Debug for Builtin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "${}", self.name)
    }
}

impl Builtin {
    pub fn signature(&self) -> Option<&Signature> {
        self.parsed.get_or_init(|| Signature::parse(self.signature, 0).ok()).as_ref()
    }
}

type Implementation = fn(&mut Evaluator, &[Value], &Value) -> Result<Value, Error>;

const fn builtin(
    name: &'static str,
    arity: usize,
    signature: &'static str,
    function: Implementation,
) -> Builtin {
    Builtin { name, arity, signature, function, parsed: OnceLock::new() }
}

static ALL: [Builtin; 65] = [
    builtin("sum", 1, "<a<n>:n>", number::sum),
    builtin("count", 1, "<a:n>", number::count),
    builtin("max", 1, "<a<n>:n>", number::max),
    builtin("min", 1, "<a<n>:n>", number::min),
    builtin("average", 1, "<a<n>:n>", number::average),
    builtin("string", 1, "<x-b?:s>", string::string),
    builtin("substring", 3, "<s-nn?:s>", string::substring),
    builtin("substringBefore", 2, "<s-s:s>", string::substring_before),
    builtin("substringAfter", 2, "<s-s:s>", string::substring_after),
    builtin("lowercase", 1, "<s-:s>", string::lowercase),
    builtin("uppercase", 1, "<s-:s>", string::uppercase),
    builtin("length", 1, "<s-:n>", string::length),
    builtin("trim", 1, "<s-:s>", string::trim),
    builtin("pad", 3, "<s-ns?:s>", string::pad),
    builtin("match", 3, "<s-f<s:o>n?:a<o>>", string::matches),
    builtin("contains", 2, "<s-(sf):b>", string::contains),
    builtin("replace", 4, "<s-(sf)(sf)n?:s>", string::replace),
    builtin("split", 3, "<s-(sf)n?:a<s>>", string::split),
    builtin("join", 2, "<a<s>s?:s>", string::join),
    builtin("base64encode", 1, "<s-:s>", string::base64_encode),
    builtin("base64decode", 1, "<s-:s>", string::base64_decode),
    builtin("encodeUrlComponent", 1, "<s-:s>", string::encode_url_component),
    builtin("encodeUrl", 1, "<s-:s>", string::encode_url),
    builtin("decodeUrlComponent", 1, "<s-:s>", string::decode_url_component),
    builtin("decodeUrl", 1, "<s-:s>", string::decode_url),
    builtin("formatNumber", 3, "<n-so?:s>", number::format_number),
    builtin("formatBase", 2, "<n-n?:s>", number::format_base),
    builtin("formatInteger", 2, "<n-s:s>", number::format_integer),
    builtin("parseInteger", 2, "<s-s:n>", number::parse_integer),
    builtin("number", 1, "<(nsb)-:n>", number::number),
    builtin("floor", 1, "<n-:n>", number::floor),
    builtin("ceil", 1, "<n-:n>", number::ceil),
    builtin("round", 2, "<n-n?:n>", number::round),
    builtin("abs", 1, "<n-:n>", number::abs),
    builtin("sqrt", 1, "<n-:n>", number::sqrt),
    builtin("power", 2, "<n-n:n>", number::power),
    builtin("random", 0, "<:n>", number::random),
    builtin("boolean", 1, "<x-:b>", object::boolean),
    builtin("not", 1, "<x-:b>", object::not),
    builtin("map", 2, "<af>", higher_order::map),
    builtin("zip", 0, "<a+>", array::zip),
    builtin("filter", 2, "<af>", higher_order::filter),
    builtin("single", 2, "<af?>", higher_order::single),
    builtin("reduce", 3, "<afj?:j>", higher_order::reduce),
    builtin("sift", 2, "<o-f?:o>", higher_order::sift),
    builtin("each", 2, "<o-f:a>", higher_order::each),
    builtin("keys", 1, "<x-:a<s>>", object::keys),
    builtin("lookup", 2, "<x-s:x>", object::lookup),
    builtin("append", 2, "<xx:a>", array::append),
    builtin("exists", 1, "<x:b>", object::exists),
    builtin("spread", 1, "<x-:a<o>>", object::spread),
    builtin("merge", 1, "<a<o>:o>", object::merge),
    builtin("reverse", 1, "<a:a>", array::reverse),
    builtin("sort", 2, "<af?:a>", array::sort),
    builtin("shuffle", 1, "<a:a>", array::shuffle),
    builtin("distinct", 1, "<x:x>", array::distinct),
    builtin("error", 1, "<s?:x>", object::error),
    builtin("assert", 2, "<bs?:x>", object::assert),
    builtin("type", 1, "<x:s>", object::type_of),
    builtin("clone", 1, "<(oa)-:o>", object::clone),
    builtin("eval", 2, "<sx?:x>", object::eval),
    builtin("toMillis", 2, "<s-s?:n>", time::to_millis),
    builtin("fromMillis", 3, "<n-s?s?:s>", time::from_millis),
    builtin("now", 2, "<s?s?:s>", time::now),
    builtin("millis", 0, "<:n>", time::millis),
];

/// The function of a name, or nothing.
pub fn lookup(name: &str) -> Value {
    thread_local! {
        static VALUES: std::collections::HashMap<&'static str, Rc<Function>> =
            ALL.iter().map(|builtin| (builtin.name, Rc::new(Function::Builtin(builtin)))).collect();
    }
    VALUES.with(|values| {
        values.get(name).map_or(Value::Undefined, |function| Value::Function(function.clone()))
    })
}

/// The longest picture of a number or a date.
const LONGEST_PICTURE: usize = 4096;

fn short(picture: &str) -> Result<(), Error> {
    if picture.len() > LONGEST_PICTURE {
        return Err(Error::new("U1002", format!("A picture string is longer than {LONGEST_PICTURE} bytes")));
    }
    Ok(())
}

fn argument(arguments: &[Value], at: usize) -> &Value {
    arguments.get(at).unwrap_or(&Value::Undefined)
}
