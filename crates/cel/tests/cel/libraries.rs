use crate::support::{all_fail, all_true};

#[test]
fn strings() {
    all_true(&[
        "'tacocat'.charAt(3) == 'o' && 'tacocat'.charAt(7) == ''",
        "'hello mellow'.indexOf('ello') == 1 && 'hello mellow'.indexOf('ello', 2) == 7 && 'x'.indexOf('y') == -1",
        "'hello mellow'.lastIndexOf('ello') == 7 && 'hello mellow'.lastIndexOf('ello', 6) == 1",
        "'TacoCat'.lowerAscii() == 'tacocat' && 'TacoCÆt'.upperAscii() == 'TACOCÆT'",
        "'hello hello'.replace('he', 'we') == 'wello wello' && 'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "'a,b'.split(',', 0) == [] && 'abc'.split('', 2) == ['a', 'bc']",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco' && 'é1'.substring(1) == '1'",
        "'  a '.trim() == 'a' && 'abc'.reverse() == 'cba'",
        "['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab' && [].join(',') == ''",
        r#"strings.quote("a\n\"b\"") == '"a\\n\\"b\\""'"#,
        "'abc'.contains('b') && 'abc'.startsWith('ab') && 'abc'.endsWith('bc')",
        "jsonpatch.escapeKey('k8s.io/a~b') == 'k8s.io~1a~0b'",
    ]);
    all_fail(&[
        ("'abc'.charAt(4)", "index out of range: 4"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'abc'.substring(4)", "index out of range: 4"),
        ("'abc'.indexOf('a', -1)", "index out of range: -1"),
    ]);
}

#[test]
fn formatting() {
    all_true(&[
        "'%s has %d%%'.format(['a', 3]) == 'a has 3%'",
        "'%.2f %e'.format([1.005, 1234.5]) == '1.00 1.234500×10⁰³'",
        "'%b %o %x %X'.format([5, 8, 255, 'hi']) == '101 10 ff 6869'",
        "'%s'.format([[1, 'a', true]]) == '[1, \"a\", true]'",
        "'%s'.format([{'b': 1, 'a': 2}]) == '{\"a\":2, \"b\":1}'",
    ]);
    all_fail(&[("'%s'.format([])", "could not parse formatting string: index 0 out of range")]);
}

#[test]
fn lists_and_sets() {
    all_true(&[
        "[1, 2, 2].isSorted() && !['b', 'a'].isSorted() && [].isSorted()",
        "[1, 2].sum() == 3 && [1.5].sum() == 1.5 && [duration('1s'), duration('1m')].sum() == duration('61s')",
        "[3, 1, 2].min() == 1 && [3, 1, 2].max() == 3",
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && ['a'].indexOf('b') == -1",
        "[1, 2].includes(2) && 'a'.includes('a') && !'a'.includes('b')",
        "[1, 2, 3, 4].slice(1, 3) == [2, 3] && [[1], [2]].flatten() == [1, 2] && [dyn(1), [dyn(2), [3]]].flatten(2) == [1, 2, 3]",
        "lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1] && [1, 1, 2].distinct() == [1, 2]",
        "[3, 1].sort() == [1, 3]",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && sets.intersects([1, 2], [2, 3])",
        "!sets.contains([1], [1, 2]) && !sets.intersects([1], [])",
    ]);
    all_fail(&[
        ("[].min() == 1", "min called on empty list"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        ("lists.range(100000000)", "operation cancelled: actual cost limit exceeded"),
    ]);
}

#[test]
fn patterns() {
    all_true(&[
        "'abc123'.matches('[0-9]+') && matches('abc', '^a') && !'abc'.matches('^[0-9]+$')",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''",
        "'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '123 456'.findAll('[0-9]+', 1) == ['123']",
    ]);
}

#[test]
fn urls() {
    all_true(&[
        "url('https://u:p@example.com:80/path?k=a&k=b').getHost() == 'example.com:80'",
        "url('https://example.com:80/').getHostname() == 'example.com' && url('https://[::1]:80/').getHostname() == '::1'",
        "url('https://[::1]:80/').getPort() == '80' && url('https://example.com/').getPort() == ''",
        "url('https://example.com/with space/').getEscapedPath() == '/with%20space/'",
        "url('https://example.com/p?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}",
        "url('/absolute').getScheme() == '' && url('https://a/').getScheme() == 'https'",
        "isURL('https://a/b') && !isURL('../relative') && !isURL('https://a:b/')",
    ]);
}

#[test]
fn addresses() {
    all_true(&[
        "isIP('127.0.0.1') && !isIP('127.0.0.256') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')",
        "ip('::1').family() == 6 && ip('1.2.3.4').family() == 4 && ip('::1') == ip('0:0:0:0:0:0:0:1')",
        "ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD')",
        "ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified() && ip('224.0.0.1').isLinkLocalMulticast()",
        "ip('169.254.1.1').isLinkLocalUnicast() && ip('10.0.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "cidr('10.0.0.1/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
        "cidr('10.0.0.1/8').ip() == ip('10.0.0.1') && isCIDR('::/0') && !isCIDR('10.0.0.0')",
        "string(ip('::1')) == '::1' && string(cidr('::/0')) == '::/0'",
    ]);
}

#[test]
fn quantities_and_versions() {
    all_true(&[
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('500m').isLessThan(quantity('1'))",
        "quantity('1000m') == quantity('1') && quantity('2k').compareTo(quantity('2000')) == 0",
        "quantity('50k').add(quantity('20')) == quantity('50020') && quantity('5').sub(7).sign() == -1",
        "quantity('1.5').isInteger() == false && quantity('2k').asInteger() == 2000",
        "quantity('500m').asApproximateFloat() == 0.5 && !isQuantity('20 Mi') && isQuantity('-2Ki')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))",
        "semver('1.0.0-alpha').compareTo(semver('1.0.0-alpha.1')) == -1 && semver('1.0.0+a') == semver('1.0.0+b')",
        "semver('v01.2', true) == semver('1.2.0') && !isSemver('v1.2.3') && isSemver('v1.2.3', true)",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
        "!isSemver('1.02.3') && !isSemver('1.2') && !isSemver('1.2.3-') && !isSemver('')",
    ]);
    all_fail(&[("quantity('1.5').asInteger()", "cannot convert value to integer")]);
}

#[test]
fn named_formats() {
    all_true(&[
        "!format.dns1123Label().validate('my-name').hasValue()",
        "format.dns1123Label().validate('My-Name').value()[0].startsWith('a lowercase RFC 1123 label')",
        "!format.dns1123LabelPrefix().validate('my-').hasValue()",
        "!format.dns1123Subdomain().validate('a.b.c').hasValue() && format.dns1123Subdomain().validate('a..b').hasValue()",
        "format.dns1035Label().validate('1a').hasValue()",
        "!format.qualifiedName().validate('example.com/Name').hasValue() && format.qualifiedName().validate('/x').hasValue()",
        "!format.labelValue().validate('').hasValue()",
        "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "!format.byte().validate('aGVsbG8=').hasValue() && format.byte().validate('*').hasValue()",
        "!format.date().validate('2021-01-01').hasValue() && format.date().validate('2021-13-01').hasValue()",
        "!format.datetime().validate('2021-01-01T00:00:00Z').hasValue()",
        "format.named('uuid').hasValue() && !format.named('unknown').hasValue()",
        "format.uri().validate('../relative/path').value() == ['parse \"../relative/path\": invalid URI for request']",
    ]);
}
