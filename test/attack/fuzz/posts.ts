/** CloudEvents and AdmissionReviews with faults, as heads and bodies of requests. */
import { admissionFunctions } from "../../../triggers/table.ts";
import type { Random } from "../../fake-cluster/random.ts";
import { onceIn, pick, whole } from "./chance.ts";
import { bodyOf, nested, oddName, oddObject, oddValue } from "./values.ts";

/** A request before it becomes bytes. Names and values of headers have only characters that HTTP permits. */
export interface Post {
  readonly description: string;
  readonly method: string;
  readonly target: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
}

const eventPaths = ["/", "/events"];
/** Paths for reviews: every existing path, and one that does not exist. */
export const reviewPaths = [...admissionFunctions.flatMap(({ paths }) => paths), "/admission/absent"];

const types = [
  "dev.knative.apiserver.ref.update",
  "dev.knative.apiserver.resource.update",
  "dev.knative.apiserver.resource.delete",
  "dev.knative.sources.ping",
  "com.example.other",
];
const kinds = ["StatefulSet", "Pod", "ZoneAwarePodDisruptionBudget", "Secret", "Unheard"];
const contentTypes = [
  "application/json",
  "application/json; charset=utf-8",
  "APPLICATION/JSON",
  "application/json;;;",
  "application/cloudevents+json",
  "application/cloudevents-batch+json",
  "application/cloudevents+xml",
  "text/plain",
  "multipart/form-data; boundary=x",
  "application/x-www-form-urlencoded",
  "json",
  "/",
  `application/${"x".repeat(3_000)}`,
];
const times = ["2020-01-01T00:00:00Z", "9999-99-99", "now", "-1", "0"];

/** Text for a header, with other characters escaped as CloudEvents requires. */
function headerText(text: string): string {
  return encodeURIComponent(text.toWellFormed()).slice(0, 6_000);
}

/** A CloudEvent with its attributes in headers. */
export function binaryEvent(random: Random): Post {
  const attributes = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "/fuzz",
    "ce-type": pick(random, types),
    "ce-kind": pick(random, kinds),
    "ce-apiversion": "apps/v1",
    "ce-namespace": "demo",
    "ce-name": "db-zone-a",
    "ce-time": pick(random, times),
    "content-type": "application/json",
  };
  const headers = Object.entries(attributes).flatMap(([name, value]): [string, string][] => {
    if (onceIn(random, 15)) return [];
    if (name === "content-type") return [[name, onceIn(random, 4) ? pick(random, contentTypes) : value]];
    if (onceIn(random, 25))
      return [
        [name, value],
        [name, headerText(oddName(random))],
      ];
    return [[name, onceIn(random, 5) ? headerText(oddName(random)) : value]];
  });
  const text = onceIn(random, 3) ? oddValue(random) : objectText(random);
  const body = bodyOf(random, text);
  return { description: "an event in binary mode", method: "POST", target: pick(random, eventPaths), headers, body };
}

/** A CloudEvent in the body. */
export function structuredEvent(random: Random): Post {
  const type = onceIn(random, 6) ? pick(random, contentTypes) : "application/cloudevents+json";
  const text = oddObject(random, {
    specversion: pick(random, ['"1.0"', '"1.0"', '"0.3"', "1", '"2.0"']),
    id: '"1"',
    source: '"/fuzz"',
    type: JSON.stringify(pick(random, types)),
    kind: JSON.stringify(pick(random, kinds)),
    namespace: '"demo"',
    name: '"db-zone-a"',
    time: JSON.stringify(pick(random, times)),
    datacontenttype: JSON.stringify(pick(random, contentTypes)),
    ...(onceIn(random, 4)
      ? { data_base64: pick(random, ['"e30="', '"%%%"', '"e"', "7"]) }
      : { data: objectText(random) }),
  });
  return {
    description: "an event in structured mode",
    method: "POST",
    target: pick(random, eventPaths),
    headers: [["content-type", type]],
    body: bodyOf(random, onceIn(random, 15) ? `[${text}]` : text),
  };
}

/** A review of an eviction or of a budget as an API server posts it, with faults. */
export function review(random: Random): Post {
  const path = pick(random, reviewPaths);
  const kind = onceIn(random, 2) ? "Eviction" : "ZoneAwarePodDisruptionBudget";
  const request = oddObject(random, {
    uid: onceIn(random, 20) ? JSON.stringify("u".repeat(whole(random, 200, 20_000))) : '"5e3b1f3a"',
    kind: `{"group":"policy","version":"v1","kind":${JSON.stringify(kind)}}`,
    resource: '{"group":"","version":"v1","resource":"pods"}',
    subResource: '"eviction"',
    operation: JSON.stringify(pick(random, ["CREATE", "UPDATE", "DELETE", "CONNECT", "create", ""])),
    namespace: onceIn(random, 3) ? JSON.stringify(oddName(random)) : '"demo"',
    name: onceIn(random, 3)
      ? JSON.stringify(oddName(random))
      : `"db-zone-${pick(random, ["a", "b", "x"])}-${whole(random, 0, 9)}"`,
    userInfo: '{"username":"fuzz","groups":["system:authenticated"]}',
    object: onceIn(random, 8) ? nested(random) : budgetOrEviction(random, kind),
    oldObject: onceIn(random, 6) ? oddValue(random) : "null",
    dryRun: pick(random, ["true", "true", "false", '"true"', "1"]),
    options: onceIn(random, 10) ? nested(random) : '{"kind":"CreateOptions"}',
  });
  const version = pick(random, ["v1", "v1", "v1beta1", "v1beta1", "v2", ""]);
  const text = oddObject(random, {
    kind: '"AdmissionReview"',
    apiVersion: JSON.stringify(`admission.k8s.io/${version}`),
    request,
  });
  const timeouts = [
    "",
    "?timeout=10s",
    "?timeout=0s",
    "?timeout=-1h",
    "?timeout=1e9s",
    "?timeout=%",
    "?timeout=%ff&timeout=1s",
  ];
  return {
    description: `a review ${version} on ${path}`,
    method: "POST",
    target: `${path}${pick(random, timeouts)}`,
    headers: [["content-type", onceIn(random, 12) ? pick(random, contentTypes) : "application/json"]],
    body: bodyOf(random, text),
  };
}

function objectText(random: Random): string {
  return oddObject(random, {
    kind: JSON.stringify(pick(random, kinds)),
    apiVersion: '"apps/v1"',
    namespace: '"demo"',
    name: JSON.stringify(oddName(random)),
    metadata: `{"namespace":"demo","name":${JSON.stringify(oddName(random))}}`,
    spec: oddValue(random),
  });
}

function budgetOrEviction(random: Random, kind: string): string {
  const spec = oddObject(random, {
    maxUnavailable: pick(random, ["1", '"50%"', "-1", "1e99", '"%"', "null"]),
    selector: oddObject(random, { matchLabels: '{"rollout-group":"db"}', matchExpressions: oddValue(random) }),
    podNamePartitionRegex: JSON.stringify(
      pick(random, ["(a+)+$", "[", "(?<n>x)(", "\\", "^(.*)-(\\d+)$", "(".repeat(2_000)]),
    ),
    podNameRegexGroup: pick(random, ["0", "1", "-1", "1e99", '"x"']),
  });
  return oddObject(random, {
    apiVersion: '"policy/v1"',
    kind: JSON.stringify(kind),
    metadata: `{"name":${JSON.stringify(oddName(random))},"namespace":"demo"}`,
    spec,
    deleteOptions: oddValue(random),
  });
}
