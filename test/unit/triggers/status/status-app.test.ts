/** The endpoints of the status. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { scriptAsset, styleAsset } from "../../../../triggers/status/assets.ts";
import { appWith, at, statusWith } from "./given.ts";

const json = { accept: "application/json" };

test("both paths answer GET and HEAD with the same document, as JSON where the client asks for that", async () => {
  const { get } = appWith();
  for (const path of ["/", "/ui/status"]) {
    for (const answer of [await get(path, json), await get(`${path}?format=json`)]) {
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get("content-type"), "application/json");
      assert.deepEqual(await answer.json(), statusWith());
    }
    const head = await get(path, json, "HEAD");
    assert.equal(head.status, 200);
    assert.equal(head.headers.get("content-type"), "application/json");
    assert.equal(await head.text(), "");
  }
  const browser = { accept: "text/html,application/json;q=0.9,*/*;q=0.8" };
  for (const answer of [await get("/", browser), await get("/"), await get("/?format=html", json)])
    assert.equal(answer.headers.get("content-type"), "text/html; charset=UTF-8");
});

test("other methods get 405 and the methods that are there, and other paths 404", async () => {
  const { get } = appWith();
  for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
    const answer = await get("/", {}, method);
    assert.deepEqual([answer.status, answer.headers.get("allow")], [405, "GET, HEAD"], method);
  }
  for (const path of ["/status", "/ui", "/assets/none.css", "/assets/..%2e%2fetc", `/${"a".repeat(8192)}`])
    assert.equal((await get(path)).status, 404, path);
  assert.equal((await get(`/?format=json&x=${"a".repeat(8192)}`)).status, 200);
});

test("both paths lead to the style and the script, which a browser may keep, because another content has another name", async () => {
  const { get } = appWith();
  for (const { path, contentType, text } of [styleAsset, scriptAsset])
    for (const folder of ["/", "/ui/"]) {
      const answer = await get(`${folder}${path}`);
      assert.equal(answer.status, 200, path);
      assert.equal(answer.headers.get("content-type"), contentType);
      assert.match(answer.headers.get("cache-control") ?? "", /immutable/);
      assert.equal(await answer.text(), text);
      const zipped = await get(`${folder}${path}`, { "accept-encoding": "gzip" });
      assert.equal(gunzipSync(Buffer.from(await zipped.arrayBuffer())).toString(), text);
      assert.match(path, /^assets\/[a-z]+-[0-9a-f]{12}\.(css|js)$/);
      for (const around of ["../", "%2e%2e/", "..%2f", "x/../../"])
        assert.equal((await get(`${folder}assets/${around}assets/${around}package.json`)).status, 404, around);
    }
});

test("the script has idiomorph with its licence, and less than 60 lines of our own", () => {
  assert.match(scriptAsset.text, /Zero-Clause BSD.*var Idiomorph=/s);
  const [, own = ""] = scriptAsset.text.split("\n/** Keeps the page fresh");
  const lines = own.trim().split("\n").length;
  assert.ok(lines > 10 && lines < 60, `${lines}`);
});

test("on a loopback address a Host that a website could have gets 421, and the names of the machine do not", async () => {
  const { get } = appWith();
  const hosts = ["localhost", "LOCALHOST:1", "127.0.0.1:8002", "[::1]:8002", "[::1]"];
  for (const host of hosts) assert.equal((await get("/", { host })).status, 200, host);
  const foreign = [
    "evil.test",
    "evil.test:8002",
    "localhost.evil.test",
    "127.0.0.1.evil.test",
    "10.0.0.1",
    "a@localhost",
    "",
  ];
  for (const host of foreign) assert.equal((await get("/", { host })).status, 421, host);
  const open = appWith({ isLoopback: false });
  assert.equal((await open.get("/", { host: "sluice.example" })).status, 200);
});

test("each answer forbids scripts of others, frames, sniffing and caches, whatever its code is", async () => {
  const { get } = appWith();
  for (const answer of [await get("/", json), await get("/none"), await get("/", { host: "evil.test" })]) {
    const policy = answer.headers.get("content-security-policy") ?? "";
    for (const part of ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"])
      assert.ok(policy.split("; ").includes(part), part);
    assert.doesNotMatch(policy, /unsafe/);
    assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
    assert.equal(answer.headers.get("referrer-policy"), "no-referrer");
    assert.equal(answer.headers.get("cache-control"), "no-store");
  }
});

test("without views the answer is 503 and says so; before the first read it is 503 and may be tried again", async () => {
  const none = await appWith({ read: undefined }).get();
  assert.deepEqual([none.status, none.headers.get("retry-after")], [503, null]);
  assert.match(await none.text(), /keeps no views .* VIEWS=watch/);
  const early = await appWith({ read: async () => undefined }).get();
  assert.deepEqual([early.status, early.headers.get("retry-after")], [503, "1"]);
});

test("one status is rendered and compressed once for all clients, and another one anew", async () => {
  let serialized = 0;
  const counted = () => ({ ...statusWith(), toJSON: () => `document ${++serialized}` });
  let status = counted();
  const { get } = appWith({ read: async () => status });
  const zipped = { ...json, "accept-encoding": "br, gzip" };
  const texts = await Promise.all(
    [json, zipped, json, zipped].map(async (headers) => {
      const answer = await get("/", headers);
      const isZipped = answer.headers.get("content-encoding") === "gzip";
      assert.equal(isZipped, headers === zipped);
      const body = Buffer.from(await answer.arrayBuffer());
      assert.equal(answer.headers.get("content-length"), String(body.byteLength));
      return JSON.parse((isZipped ? gunzipSync(body) : body).toString());
    }),
  );
  assert.deepEqual(texts, Array(4).fill("document 1"));
  status = counted();
  assert.equal(await (await get("/", json)).json(), "document 2");
});

test("a status that cannot be read gets 500 without its reason, which the log has", async () => {
  const { get, lines } = appWith({ read: () => Promise.reject(new Error("broken")) });
  const answer = await get();
  assert.equal(answer.status, 500);
  assert.doesNotMatch(await answer.text(), /broken/);
  assert.ok(lines.some(({ msg }) => String(msg).includes("broken")));
});

test("requests are counted by the code of their answer, and timed", async () => {
  const { get, registry } = appWith();
  await get("/", json);
  await get("/", { host: "evil.test" });
  await get("/", {}, "POST");
  const text = await registry.metrics();
  for (const [code, count] of Object.entries({ 200: 1, 421: 1, 405: 1 }))
    assert.ok(text.includes(`sluice_status_requests_total{code="${code}"} ${count}`), code);
  assert.ok(text.includes("sluice_status_seconds_count 3") && text.includes("sluice_status_seconds_sum 0.75"), at);
});
