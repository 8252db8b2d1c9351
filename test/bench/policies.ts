/**
 * `npx node test/bench/policies.ts`: measures how long a write takes on a real API server, with and without the policies of
 * the fence and of the guard. Both take turns in one run, so that other load slows both. `ROUNDS=9` takes more rounds.
 */
import { loadAll } from "js-yaml";
import { renderManifests } from "../../knative/render/manifests.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions } from "../../triggers/table.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { ensureAssets } from "../controlplane/assets.ts";
import { startControlPlane } from "../controlplane/controlplane.ts";
import { spreadOf } from "./statistics.ts";

const rounds = Number(process.env.ROUNDS ?? 7);
const writes = 100;
/** Namespace for which the policies are rendered. */
const namespace = "default";
const sluice = `system:serviceaccount:${namespace}:sluice`;
const policyPath = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const bindingPath = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

interface Policy {
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

interface Written {
  readonly what: string;
  readonly path: string;
  readonly user: string;
  readonly key: string;
}

const pods = `/api/v1/namespaces/${namespace}/pods`;
const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
const written: readonly Written[] = [
  { what: "a pod, by us", path: `${pods}/bench`, user: sluice, key: "sluice.dev/skip-labelled-at" },
  { what: "a ledger, by us", path: `${leases}/sluice-bench`, user: sluice, key: "sluice.dev/verdicts" },
  { what: "a pod, by others", path: `${pods}/bench`, user: "others", key: "example.com/word" },
  { what: "a Lease of others, by others", path: `${leases}/bench`, user: "others", key: "example.com/word" },
  { what: "a volume claim, by others", path: `${claims}/bench`, user: "others", key: "sluice.dev/hold" },
];

/** Resolves to the status. */
async function write(api: Api, { path, user, key }: Written, text: string): Promise<number> {
  const body = { metadata: { annotations: { [key]: text } } };
  const headers = { "impersonate-user": user, "impersonate-group": "system:masters" };
  const { statusCode, body: answer } = await api.send("PATCH", path, body, "application/merge-patch+json", headers);
  await answer.dump();
  return statusCode;
}

async function furnish(api: Api): Promise<void> {
  const container = { name: "app", image: "app:1" };
  await api.post(pods, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "bench" },
    spec: { containers: [container] },
  });
  for (const [name, annotations] of [
    ["sluice-bench", { "sluice.dev/group": "bench" }],
    ["bench", {}],
  ] as const)
    await api.post(leases, { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name, annotations } });
  await api.post(claims, {
    ...{ apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "bench" } },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  });
}

/** Binds the policies, or removes their bindings. Resolves when the API server applies that. */
async function bind(api: Api, bindings: readonly Policy[], isBound: boolean): Promise<void> {
  for (const binding of bindings)
    if (isBound) await api.post(bindingPath, binding);
    else await api.delete(`${bindingPath}/${binding.metadata.name}`);
  const forbidden = { what: "a word of others, by us", path: `${pods}/bench`, user: sluice, key: "example.com/word" };
  await eventually(`the policies ${isBound ? "bound" : "gone"}`, 30_000, async () => {
    const status = await write(api, forbidden, String(performance.now()));
    return (status === 422) === isBound ? true : undefined;
  });
}

/** The median of this many writes, in milliseconds. Throws if one is refused. */
async function median(api: Api, one: Written): Promise<number> {
  const tookMs: number[] = [];
  for (let count = 0; count < writes; count++) {
    const startedMs = performance.now();
    const status = await write(api, one, one.key.endsWith("hold") ? String(count % 2 === 0) : String(startedMs));
    tookMs.push(performance.now() - startedMs);
    if (status !== 200) throw new Error(`${one.what} was answered with ${status}`);
  }
  return spreadOf(tookMs).median;
}

const assets = await ensureAssets((line) => console.error(line));
const controlPlane = await startControlPlane({ assets });
const api = await Api.open(controlPlane, { userAgent: "sluice-bench-policies" });
try {
  const rendered = renderManifests({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions });
  const objects = [...rendered].flatMap(([file, text]) =>
    /^fence\/(fence|guard)\.yaml$/.test(file) ? (loadAll(text) as unknown as Policy[]) : [],
  );
  for (const policy of objects.filter(({ kind }) => kind === "ValidatingAdmissionPolicy"))
    await api.post(policyPath, policy);
  const bindings = objects.filter(({ kind }) => kind === "ValidatingAdmissionPolicyBinding");
  await furnish(api);
  const medians = written.map((one) => ({ one, bare: [] as number[], evaluated: [] as number[] }));
  // The first round warms up.
  for (let round = 0; round <= rounds; round++) {
    for (const isBound of [true, false]) {
      await bind(api, bindings, isBound);
      for (const { one, bare, evaluated } of medians) {
        const tookMs = await median(api, one);
        if (round > 0) (isBound ? evaluated : bare).push(tookMs);
      }
    }
  }
  for (const { one, bare, evaluated } of medians) {
    const added = evaluated.map((ms, round) => ms - (bare[round] ?? Number.NaN));
    const [without, between, within] = [bare, added, evaluated].map((values) => {
      const { median: middle, least, most } = spreadOf(values);
      return `${middle.toFixed(2)} (${least.toFixed(2)} to ${most.toFixed(2)})`;
    });
    console.log(`${one.what}: ${without} ms without, ${within} with; ${between} more`);
  }
} finally {
  await api.close();
  await controlPlane.stop();
}
