/** What an account may do with the paths of webhooks, and what it may not: a review key comes before a path, and nothing else. */
import { reviewKey } from "../../functions/shared/annotations/table.ts";
import { splitPath } from "../../functions/shared/certificates/review-key.ts";
import { type Attempt, type Change, type Fields, type Form, patches, type Target } from "./escape-forms.ts";

/** Of 64 digits, as keys are. */
const key = "5".repeat(64);
/** These forms add to a client what they name, and take nothing away from it. */
const adding: readonly Form[] = ["strategic", "apply"];

interface Client {
  readonly service: Fields & { readonly path: string };
}

/** Another key before the path of a configuration, which only the label allows, and other paths, which nothing does. */
export function keyAttempts(
  target: Target,
  [first, ...rest]: readonly Fields[],
  labels: Readonly<Record<string, string>>,
): readonly Attempt[] {
  if (first === undefined) return [];
  const clientConfig = first.clientConfig as Client;
  const { service } = clientConfig;
  const { path } = splitPath(service.path);
  const keyed = `/${key}${path}`;
  const isLabelled = labels[reviewKey.key] === "true";
  const client = (what: string, change: Fields, unless: readonly Form[] = []): Change => ({
    what,
    fields: [[["webhooks"], [{ ...first, clientConfig: { ...clientConfig, service: change } }, ...rest]]],
    unless,
  });
  const at = (what: string, other: string) => client(what, { ...service, path: other });
  const { path: _, ...pathless } = service;
  const withKey = at("a review key", keyed);
  const labelling = (what: string, value: string | null): Change => ({
    what: `a review key, and the label ${what}`,
    fields: [...withKey.fields, [["metadata", "labels", reviewKey.key], value]],
    ...(value === null ? { unless: ["apply"] } : {}),
  });
  const refused = [
    at("another path", "/attacker"),
    at("another path behind a key", `/${key}/attacker`),
    at("a longer path behind a key", `${keyed}/attacker`),
    at("a segment that is no key, of other letters", `/${"g".repeat(64)}${path}`),
    at("a segment that is no key, of 63 digits", `/${key.slice(1)}${path}`),
    at("a segment that is no key, of 65 digits", `/5${key}${path}`),
    at("two keys", `/${key}${keyed}`),
    at("a key behind the path", `${path}/${key}`),
    at("a key behind a segment", `/attacker/${key}${path}`),
    at("a key alone", `/${key}`),
    client("no path", pathless, adding),
    client("a review key, and another Service", { ...service, path: keyed, name: "attacker" }),
    client("a review key, and another namespace", { ...service, path: keyed, namespace: "attacker" }),
    client("a review key, and another port", { ...service, path: keyed, port: 8443 }),
    labelling("false", "false"),
    ...(isLabelled ? [labelling("removed", null)] : [labelling("added", "true"), withKey]),
    ...(service.path === path ? [] : [at("the key taken away", path)]),
  ];
  return [
    ...refused.flatMap((change) => patches(target, change)),
    ...(isLabelled ? patches(target, withKey, "nothing") : []),
  ];
}
