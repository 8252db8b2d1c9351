/** A StatefulSet's annotations about questions to its pods: their grammar, and the defaults for malformed ones. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseQuestion } from "../../../../functions/shared/annotations/parse-health.ts";
import { parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";

const metadata = { name: "rabbit", uid: "u", resourceVersion: "1" };
const key = (name: string) => `sluice.dev/health-${name}`;
type Texts = Readonly<Record<string, string>>;
const annotated = (texts: Texts) => {
  return {
    ...metadata,
    annotations: Object.fromEntries(Object.entries(texts).map(([name, text]) => [key(name), text])),
  };
};
const parse = (texts: Texts, service = "rabbit-nodes") => parseQuestion(annotated(texts), service);
const url = (text: string) => parse({ question: "http", url: text })?.ask?.url;

test("a StatefulSet without annotations about health has no health question", () => {
  assert.equal(parseQuestion(metadata, "rabbit-nodes"), undefined);
  assert.equal(parseQuestion({ ...metadata, annotations: { other: "http" } }, ""), undefined);
});

test("RabbitMQ's question goes to its management plugin, with the Secret that is named", () => {
  const { ask, unknown, malformed } = parse({ question: "rabbitmq", secret: "rabbit-default-user" }) ?? assert.fail();
  const where = { scheme: "http", port: 15672, path: "/api/health/checks/node-is-quorum-critical" };
  const rest = { secret: "rabbit-default-user", authority: undefined, field: undefined };
  assert.deepEqual(ask, { product: "rabbitmq", url: where, ...rest });
  assert.deepEqual([unknown, malformed], ["wait", []]);
});

test("the authority is the name of a Secret or a ConfigMap; a malformed one is reported, and no pod is asked", () => {
  const rabbit = { question: "rabbitmq", secret: "s", url: "https://:15671/api" };
  assert.deepEqual(parse({ ...rabbit, authority: "configmap/ca" })?.ask?.authority, {
    resource: "configmaps",
    name: "ca",
  });
  const { ask, malformed } = parse({ ...rabbit, authority: "ca" }) ?? assert.fail();
  assert.equal(ask, undefined);
  assert.match(malformed[0]?.message ?? "", /sluice\.dev\/health-authority is "ca"; .*secret\/NAME or configmap\/NAME/);
});

test("a URL is a scheme, a port and a path, on the pod itself", () => {
  assert.deepEqual(url("http://:8080/ready"), { scheme: "http", port: 8080, path: "/ready" });
  assert.deepEqual(url("https://:443/a/b?c=d%20e"), { scheme: "https", port: 443, path: "/a/b?c=d%20e" });
  assert.deepEqual(url("http://:8080"), { scheme: "http", port: 8080, path: "/" });
});

test("a URL that could lead to another host is malformed: Sluice reports it, asks no pod and takes none", () => {
  for (const text of [
    "http://other:80/ready",
    "http://1@other:80/ready",
    "1@other:80",
    "http://:1@other:80/ready",
    "http://:8080@other/ready",
    "//other/ready",
    "/ready",
    ":8080/ready",
    "ftp://:21/ready",
    "HTTP://:8080/ready",
    "http://[::1]:8080/",
    "http://:0/ready",
    "http://:65536/ready",
    "http://:8080/re ady",
    "http://:8080/ready#there",
    "http://:8080\\@other/",
    "http://:8080/\r\nhost: other",
    " http://:8080/",
    "",
  ]) {
    const { ask, malformed } = parse({ question: "http", url: text }) ?? assert.fail();
    assert.equal(ask, undefined, text);
    assert.deepEqual(
      malformed.map((one) => one.key),
      [key("url")],
      text,
    );
    assert.match(malformed[0]?.message ?? "", /write http:\/\/:PORT\/PATH .* no pod of the StatefulSet is taken/);
  }
});

test("a missing or contradictory annotation is reported, and no pod goes", () => {
  const messages = (texts: Texts, service?: string) => {
    const { ask, malformed } = parse(texts, service) ?? assert.fail();
    assert.equal(ask, undefined);
    return malformed.map(({ message }) => message).join("; ");
  };
  assert.match(messages({ question: "kafka" }), /is "kafka"; write rabbitmq or http/);
  assert.match(messages({ url: "http://:80/" }), /health-question is missing/);
  assert.match(messages({ question: "http" }), /health-url is missing, and http has no usual one/);
  assert.match(messages({ question: "rabbitmq" }), /health-secret is missing/);
  assert.match(messages({ question: "rabbitmq", secret: "../a" }), /is "..\/a"; write the name of a Secret/);
  assert.match(messages({ question: "rabbitmq", secret: "s", field: "a=b" }), /health-field says nothing of rabbitmq/);
  assert.match(messages({ question: "http", url: "http://:80/", field: "=green" }), /write FIELD=VALUE/);
  assert.match(messages({ question: "http", url: "http://:80/" }, ""), /serviceName is empty/);
});

test("a malformed policy counts as wait, and the pods are still asked", () => {
  const policy = (text: string) => parse({ question: "http", url: "http://:80/", unknown: text }) ?? assert.fail();
  assert.equal(policy("go").unknown, "go");
  assert.equal(policy("wait").unknown, "wait");
  const { unknown, ask, malformed } = policy("true");
  assert.deepEqual([unknown, ask?.product, malformed.map((one) => one.key)], ["wait", "http", [key("unknown")]]);
  assert.equal(parse({ question: "http", url: "nowhere", unknown: "true" })?.ask, undefined);
});

test("a field is the path to a value, and the value is all that follows the first equals sign", () => {
  const field = (text: string) => parse({ question: "http", url: "http://:80/", field: text })?.ask?.field;
  assert.deepEqual(field("status=green"), { path: ["status"], value: "green" });
  assert.deepEqual(field("cluster.state=a=b"), { path: ["cluster", "state"], value: "a=b" });
  assert.deepEqual(field("status="), { path: ["status"], value: "" });
  for (const text of ["status", "", ".a=b", "a..b=c"]) assert.equal(field(text), undefined, text);
});

test("the parsed StatefulSet lists the malformed annotations of its question with its other ones", () => {
  const parsed = parseStatefulSet({
    metadata: annotated({ question: "http", url: "x" }),
    spec: { serviceName: "s" },
  } as never);
  assert.equal(parsed.question?.ask, undefined);
  assert.deepEqual(
    parsed.malformed.map((one) => one.key),
    [key("url")],
  );
});

test("annotations beside an unknown or missing product are reported as one mistake", () => {
  const keysOf = (texts: Texts) => (parse(texts) ?? assert.fail()).malformed.map((one) => one.key);
  assert.deepEqual(keysOf({ question: "kafka" }), [key("question")]);
  assert.deepEqual(keysOf({ question: "kafka", field: "a=b" }), [key("question")]);
  assert.deepEqual(keysOf({ secret: "s" }), [key("question")]);
  assert.deepEqual(keysOf({ question: "http", url: "nowhere" }), [key("url")]);
});
