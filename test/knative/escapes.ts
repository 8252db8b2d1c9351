/** What an account of Sluice may not do though RBAC lets it write the object: attempts for each right of it. */
import { usualSecretName } from "../../functions/shared/certificates/settings.ts";
import {
  type Attempt,
  type Change,
  type Fields,
  type Form,
  forms,
  patches,
  pathOf,
  type Target,
} from "./escape-forms.ts";
import { keyAttempts } from "./escape-keys.ts";
import type { Right } from "./rights.ts";

/** Where the attempts are made: the namespace that is served, and another one with the same objects. */
export interface Place {
  readonly namespace: string;
  readonly elsewhere: string;
}

const set = (what: string, path: string, value: unknown): Change => ({ what, fields: [[path.split("."), value]] });
const label = (key: string, value: string | null = "attacker"): Change => ({
  what: value === null ? `label ${key} removed` : `label ${key}`,
  fields: [[["metadata", "labels", key], value]],
  ...(value === null ? { unless: ["apply"] } : {}),
});
const annotation = (key: string): Change => ({
  what: `annotation ${key}`,
  fields: [[["metadata", "annotations", key], "x"]],
});
const owner = { apiVersion: "v1", kind: "ConfigMap", name: "gone", uid: "00000000-0000-4000-8000-000000000000" };
const owners = set("owners", "metadata.ownerReferences", [owner]);
const finalizer = set("finalizer of others added", "metadata.finalizers", ["example.com/kept", "example.com/more"]);
/** A strategic patch and an applied one add to the list. */
const noFinalizer: Change = {
  ...set("finalizer of others removed", "metadata.finalizers", []),
  unless: ["strategic", "apply"],
};
/** What no function changes of any object. */
const metadata = [label("app"), label("example.com/new"), label("app", null), annotation("example.com/word"), owners];
const ofObject = [...metadata, finalizer, noFinalizer];

const stateful = (namespace: string): Target => ({
  apiVersion: "apps/v1",
  kind: "StatefulSet",
  plural: "statefulsets",
  name: "db",
  namespace,
});
const pod = (namespace: string): Target => ({
  apiVersion: "v1",
  kind: "Pod",
  plural: "pods",
  name: "alone",
  namespace,
});
const claim = (namespace: string, name = "data-db-0"): Target => ({
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  plural: "persistentvolumeclaims",
  name,
  namespace,
});
const volume = (name: string): Target => ({
  apiVersion: "v1",
  kind: "PersistentVolume",
  plural: "persistentvolumes",
  name,
  namespace: undefined,
});
const lease = (namespace: string, name: string): Target => ({
  apiVersion: "coordination.k8s.io/v1",
  kind: "Lease",
  plural: "leases",
  name,
  namespace,
});
const rabbit = (namespace: string): Target => ({
  apiVersion: "rabbitmq.com/v1beta1",
  kind: "RabbitmqCluster",
  plural: "rabbitmqclusters",
  name: "orders",
  namespace,
});
const foundation = (namespace: string): Target => ({
  apiVersion: "apps.foundationdb.org/v1beta2",
  kind: "FoundationDBCluster",
  plural: "foundationdbclusters",
  name: "fdb",
  namespace,
});
const replicaTemplate = (namespace: string): Target => ({
  apiVersion: "rollout-operator.grafana.com/v1",
  kind: "ReplicaTemplate",
  plural: "replicatemplates",
  name: "db",
  namespace,
});
const secret = (namespace: string, name: string): Target => ({
  apiVersion: "v1",
  kind: "Secret",
  plural: "secrets",
  name,
  namespace,
});
const webhooks = (kind: string, name: string): Target => ({
  apiVersion: "admissionregistration.k8s.io/v1",
  kind,
  plural: `${kind.toLowerCase()}s`,
  name,
  namespace: undefined,
});

const image = [{ name: "c", image: "attacker" }];
/** The accounts that may change sizes. */
const resizing = ["sluice", "follow-replicas", "prepare-delayed-downscale", "suspend-group"];
const onlyFields: readonly Form[] = ["json"];
const lists: readonly Form[] = ["strategic", "apply"];
const but = (...left: readonly Form[]) => (Object.keys(forms) as Form[]).filter((form) => !left.includes(form));

/** Requests of a right that come from nowhere near it: those that its Role alone refuses. */
function away(target: Target, verb: string): readonly Attempt[] {
  if (verb === "patch") return patches(target, label("app"), "role");
  const path = pathOf(target);
  return [{ what: `${target.namespace}/${target.name} deleted`, method: "DELETE", path, by: "role" }];
}

function statefulSets({ namespace, elsewhere }: Place, account: string): readonly Attempt[] {
  const changes = [
    set("another image", "spec.template.spec.containers", image),
    set("another account", "spec.template.spec.serviceAccountName", "attacker"),
    set("readiness later", "spec.minReadySeconds", 600),
    ...(resizing.includes(account) ? [] : [set("another size", "spec.replicas", 3)]),
    ...ofObject,
  ];
  return [...changes.flatMap((change) => patches(stateful(namespace), change)), ...away(stateful(elsewhere), "patch")];
}

function pods({ namespace, elsewhere }: Place): readonly Attempt[] {
  const changes: readonly Change[] = [
    { ...set("another image", "spec.containers", image), unless: but(...lists) },
    { ...set("another image", "spec.containers.0.image", "attacker"), unless: but(...onlyFields) },
    set("an end", "spec.activeDeadlineSeconds", 1),
    ...ofObject,
  ];
  return [...changes.flatMap((change) => patches(pod(namespace), change)), ...away(pod(elsewhere), "patch")];
}

function claims({ namespace, elsewhere }: Place): readonly Attempt[] {
  const bound = set("another volume", "spec.volumeName", "theirs");
  return [
    ...ofObject.flatMap((change) => patches(claim(namespace), change)),
    ...patches(claim(namespace, "unbound"), bound),
    ...patches(claim(namespace), annotation("sluice.dev/hold")),
    ...away(claim(elsewhere), "patch"),
  ];
}

function volumes({ namespace }: Place): readonly Attempt[] {
  const policy = ["spec", "persistentVolumeReclaimPolicy"] as const;
  const taken = { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name: "mine" };
  const kept = (change: Change): Change => ({ ...change, fields: [...change.fields, [policy, "Retain"]] });
  const [ours, theirs, free] = ["ours", "theirs", "free"].map((name) => volume(`${name}-${namespace}`));
  if (ours === undefined || theirs === undefined || free === undefined) return [];
  const spec = [
    set("another claim", "spec.claimRef", { ...taken, uid: owner.uid }),
    set("options", "spec.mountOptions", ["ro"]),
  ];
  return [
    ...patches(ours, set("recycled", policy.join("."), "Recycle")),
    ...[...spec, ...ofObject].flatMap((change) => patches(ours, kept(change))),
    ...patches(theirs, set("kept", policy.join("."), "Retain")),
    ...patches(theirs, set("recycled", policy.join("."), "Recycle")),
    ...patches(theirs, { ...set("let go", "spec.claimRef", null), unless: ["apply"] }),
    ...patches(theirs, kept(set("taken", "spec.claimRef", { ...taken, uid: owner.uid }))),
    ...patches(free, kept(set("taken", "spec.claimRef", taken))),
  ];
}

function leases({ namespace, elsewhere }: Place, verb: string): readonly Attempt[] {
  const foreign = ["leader", "sluice-lookalike", "marked-like-one"];
  const ledger = lease(namespace, "sluice-db");
  if (verb === "delete") {
    const deleted = foreign.map((name) => pathOf(lease(namespace, name)));
    return [
      ...deleted.map((path): Attempt => ({ what: `${path} deleted`, method: "DELETE", path, by: "policy" })),
      ...away(lease(elsewhere, "sluice-db"), verb),
    ];
  }
  if (verb === "create") {
    const annotations = { "sluice.dev/group": "new" };
    const made = (what: string, at: string, body: Fields, by: Attempt["by"] = "policy"): Attempt => {
      const path = pathOf({ ...lease(at, ""), name: "" });
      return {
        what: `${at}: ${what}`,
        method: "POST",
        path,
        body: { apiVersion: ledger.apiVersion, kind: "Lease", ...body },
        by,
      };
    };
    return [
      made("another Lease", namespace, { metadata: { name: "attacker", annotations } }),
      made("one without a group", namespace, { metadata: { name: "sluice-attacker" } }),
      made("one with a holder", namespace, {
        metadata: { name: "sluice-new", annotations },
        spec: { holderIdentity: "x" },
      }),
      made("one with an owner", namespace, { metadata: { name: "sluice-new", annotations, ownerReferences: [owner] } }),
      made("one with a label", namespace, { metadata: { name: "sluice-new", annotations, labels: { a: "b" } } }),
      made("one elsewhere", elsewhere, { metadata: { name: "sluice-new", annotations } }, "role"),
    ];
  }
  return [
    ...foreign.flatMap((name) => patches(lease(namespace, name), annotation("sluice.dev/claims"))),
    ...patches(lease(namespace, "leader"), set("a holder", "spec.holderIdentity", "attacker")),
    ...[...ofObject, set("a holder", "spec.holderIdentity", "x"), annotation("sluice.dev/group")].flatMap((change) =>
      patches(ledger, change),
    ),
    ...away(lease(elsewhere, "sluice-db"), "patch"),
  ];
}

function custom(target: Target, fields: readonly Change[], elsewhere: Target): readonly Attempt[] {
  return [...[...fields, ...ofObject].flatMap((change) => patches(target, change)), ...away(elsewhere, "patch")];
}

function secrets({ namespace, elsewhere }: Place): readonly Attempt[] {
  const changes = [set("no change any more", "immutable", true), owners, finalizer, label("app")];
  return [
    ...changes.flatMap((change) => patches(secret(namespace, usualSecretName), change)),
    ...away(secret(namespace, "others"), "patch"),
    ...away(secret(elsewhere, usualSecretName), "patch"),
  ];
}

/** Labels and webhooks of configurations as they are, by `KIND NAME`. */
export type Webhooks = Readonly<
  Record<string, { readonly labels: Readonly<Record<string, string>>; readonly webhooks: readonly Fields[] }>
>;

function configurations(kind: string, place: Place, names: readonly string[], known: Webhooks): readonly Attempt[] {
  return names.flatMap((name) => {
    const target = webhooks(kind, name);
    const { labels = {}, webhooks: entries = [] } = known[`${kind} ${name}`] ?? {};
    const [first, ...rest] = entries;
    // Not every name is one of ours.
    if (first === undefined) return [];
    const { clientConfig } = first as { clientConfig: { service: Fields; caBundle?: string } };
    const { caBundle } = clientConfig;
    const all = (what: string, change: Fields, unless: readonly Form[] = []): Change => ({
      ...set(what, "webhooks", [{ ...first, ...change }, ...rest]),
      unless,
    });
    const rules = [
      { apiGroups: ["rbac.authorization.k8s.io"], apiVersions: ["v1"], operations: ["*"], resources: ["*"] },
    ];
    const url = "https://attacker.invalid/steal";
    const changes = [
      all("other rules", { rules }),
      all("all namespaces", { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": place.elsewhere } } }),
      all("another Service", {
        clientConfig: { ...clientConfig, service: { ...clientConfig.service, name: "attacker" } },
      }),
      all("another URL", { clientConfig: { url, ...(caBundle === undefined ? {} : { caBundle }) } }, lists),
      all("another timeout", { timeoutSeconds: 1 }),
      set("a webhook more", "webhooks", [first, { ...first, name: "attacker.example.com" }]),
      { ...set("no webhook", "webhooks", []), unless: lists },
      ...[label("app"), owners, finalizer],
    ];
    return [...changes.flatMap((change) => patches(target, change)), ...keyAttempts(target, entries, labels)];
  });
}

function eventIn(namespace: string): Attempt {
  return {
    what: `${namespace}: an Event`,
    method: "POST",
    path: `/api/v1/namespaces/${namespace}/events`,
    body: { apiVersion: "v1", kind: "Event", metadata: { name: "attacker" }, involvedObject: { namespace } },
    by: "role",
  };
}

/** The attempts for a right of an account, each with dry run alone. Undefined for a right of which this table does not know. */
export function attemptsFor(
  { verb, resource, names = [] }: Right,
  account: string,
  place: Place,
  known: Webhooks,
): readonly Attempt[] | undefined {
  const { namespace, elsewhere } = place;
  const kinds: Readonly<Record<string, string>> = {
    mutatingwebhookconfigurations: "MutatingWebhookConfiguration",
    validatingwebhookconfigurations: "ValidatingWebhookConfiguration",
  };
  const kind = kinds[resource];
  if (kind !== undefined && verb === "patch")
    return [...configurations(kind, place, names, known), ...away(webhooks(kind, `unrelated-${namespace}`), "patch")];
  const all = (target: Target): Attempt => ({
    what: `all ${target.plural}`,
    method: "DELETE",
    path: pathOf({ ...target, name: "" }),
    by: "role",
  });
  const statusChanges = [
    set("another revision", "status.updateRevision", "attacker"),
    set("another number of pods", "status.replicas", 9),
    label("app"),
  ];
  const table: Readonly<Record<string, () => readonly Attempt[]>> = {
    "patch statefulsets": () => statefulSets(place, account),
    "patch statefulsets/status": () => [
      ...statusChanges.flatMap((change) => patches({ ...stateful(namespace), subresource: "status" }, change)),
      ...away({ ...stateful(elsewhere), subresource: "status" }, "patch"),
    ],
    "patch pods": () => pods(place),
    "delete pods": () => [...away(pod(elsewhere), "delete"), all(pod(namespace))],
    "patch persistentvolumeclaims": () => claims(place),
    "delete persistentvolumeclaims": () => [...away(claim(elsewhere), "delete"), all(claim(namespace))],
    "patch persistentvolumes": () => volumes(place),
    "create leases": () => leases(place, verb),
    "patch leases": () => leases(place, verb),
    "delete leases": () => leases(place, verb),
    "create events": () => [eventIn(elsewhere)],
    "patch rabbitmqclusters": () =>
      custom(rabbit(namespace), [set("another size", "spec.replicas", 3)], rabbit(elsewhere)),
    "patch foundationdbclusters": () =>
      custom(
        foundation(namespace),
        [set("other labels", "spec.labels.matchLabels", { a: "b" })],
        foundation(elsewhere),
      ),
    "patch foundationdbclusters/status": () => [
      ...patches(
        { ...foundation(namespace), subresource: "status" },
        set("health", "status.health", { available: true }),
      ),
      ...away({ ...foundation(elsewhere), subresource: "status" }, "patch"),
    ],
    // Of its own status there is only the size, which is the work of the function.
    "patch replicatemplates/status": () => away({ ...replicaTemplate(elsewhere), subresource: "status" }, "patch"),
    "patch secrets": () => secrets(place),
  };
  return table[`${verb} ${resource}`]?.();
}
