import assert from "node:assert/strict";
import { test } from "node:test";
import { formatListenAddress, isLoopback, parseListenAddress } from "../../../../triggers/settings/listen-address.ts";
import { readSettings } from "../../../../triggers/settings/settings.ts";

test("an address is an IP address or localhost, with a port", () => {
  assert.deepEqual(parseListenAddress("127.0.0.1:8002"), { host: "127.0.0.1", port: 8002 });
  assert.deepEqual(parseListenAddress("[::1]:0"), { host: "::1", port: 0 });
  assert.deepEqual(parseListenAddress("localhost:65535"), { host: "localhost", port: 65_535 });
  const wrong = [
    "",
    ":8002",
    "127.0.0.1",
    "127.0.0.1:",
    "127.0.0.1:65536",
    "::1:8002",
    "[127.0.0.1]:1",
    "1.2.3:1",
    "a.b:1",
  ];
  for (const text of wrong) assert.equal(parseListenAddress(text), undefined, text);
  for (const text of ["127.0.0.1:8002", "[::1]:8002", "localhost:0"]) {
    const address = parseListenAddress(text);
    assert.equal(address && formatListenAddress(address), text);
  }
});

test("only loopback addresses count as such", () => {
  for (const host of ["127.0.0.1", "127.9.9.9", "::1", "localhost"]) assert.equal(isLoopback({ host }), true, host);
  for (const host of ["0.0.0.0", "::", "10.0.0.1", "128.0.0.1"]) assert.equal(isLoopback({ host }), false, host);
});

test("STATUS_LISTEN is off unless it names an address, and a wrong value is a mistake that says what to write", () => {
  assert.equal(readSettings({}).settings.statusListen, "off");
  assert.deepEqual(readSettings({ STATUS_LISTEN: "0.0.0.0:80" }).settings.statusListen, { host: "0.0.0.0", port: 80 });
  assert.deepEqual(readSettings({ STATUS_LISTEN: "8002" }).mistakes, [
    'STATUS_LISTEN is "8002"; write an IP address or localhost with a port, such as 127.0.0.1:8002 or [::1]:8002, or off',
  ]);
});
