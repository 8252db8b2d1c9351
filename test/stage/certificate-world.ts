/** The embedded world as a rotation sees it: a Secret, webhook configurations, a clock, and writes that may kill the writer. */
import assert from "node:assert/strict";
import { rotateCertificate } from "../../functions/rotate-certificate/function.ts";
import type { Cluster, Resource } from "../../functions/shared/kubernetes/cluster.ts";
import {
  type CertificateSettings,
  dataOf,
  type Generation,
  generateKeys,
  issue,
  parseCertificates,
  type StoredCertificates,
  splitPem,
} from "../../functions/shared/objects/certificates.ts";
import type { ActReport } from "../../functions/shared/pass/reporter.ts";
import { silentReporter } from "../../functions/shared/pass/reporter.ts";
import { seededRandom } from "../world/random.ts";
import { Store } from "../world/store.ts";
import { VirtualTimeline } from "../world/timeline.ts";

export const settings: CertificateSettings = {
  secret: { namespace: "mimir", name: "certificate" },
  dnsName: "rollout-operator.mimir.svc",
  organisation: "Grafana Labs",
  lifetimeMs: 60_000,
  updatesBundles: true,
};

const ours = { "grafana.com/inject-rollout-operator-ca": "true", "grafana.com/namespace": "mimir" };
const resource = "validatingwebhookconfigurations";

/** One for the whole file. */
const keys = await generateKeys();

/** A generation that began `ageMs` ago, by the clock of the world. */
export function generationOf(
  nowMs: number,
  options: { ageMs?: number; dnsNames?: readonly string[] } = {},
): Promise<Pick<Generation, "ca" | "cert" | "key">> {
  const { ageMs = 0, dnsNames = [settings.dnsName] } = options;
  const notBeforeMs = nowMs - ageMs - 30_000;
  return issue(keys, { organisation: "Grafana Labs", dnsNames, notBeforeMs, notAfterMs: notBeforeMs + 90_000 });
}

export class CertificateWorld {
  readonly timeline = new VirtualTimeline(Date.parse("2026-11-21T12:00:00Z"));
  readonly store = new Store({ timeline: this.timeline, random: seededRandom(1) });
  readonly acts: string[] = [];
  readonly writes: string[] = [];
  readonly problems: string[] = [];
  /** Called before, and again after, each write; what it throws comes out of the call. */
  onWrite: (when: "before" | "after", what: string) => void = () => {};

  /** Called before each read; it may throw, and is waited for. */
  onRead: (what: string) => Promise<void> | void = () => {};

  /** A configuration whose two webhooks trust a bundle, which is empty unless told otherwise. */
  addConfiguration(name: string, options: { labels?: Readonly<Record<string, string>>; caBundle?: string } = {}): void {
    const { labels = ours, caBundle } = options;
    const bundle = caBundle === undefined ? {} : { caBundle: Buffer.from(caBundle).toString("base64") };
    const webhooks = ["a", "b"].map((entry) => ({
      name: `${entry}.${name}.grafana.com`,
      clientConfig: { service: { namespace: "mimir", name: "rollout-operator", path: `/${entry}` }, ...bundle },
      rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] }],
      admissionReviewVersions: ["v1"],
      sideEffects: "None",
    }));
    this.store.create(resource, "", { metadata: { name, labels }, webhooks });
  }

  addSecret(data: object): void {
    this.store.create("secrets", "mimir", { metadata: { name: "certificate" }, type: "Opaque", data });
  }

  /** A Secret whose certificate began `ageMs` ago, and a configuration that trusts it. */
  async addRunning(ageMs: number): Promise<void> {
    const generation = await generationOf(this.timeline.nowMs(), { ageMs });
    this.addSecret(dataOf("presented", generation));
    for (const name of ["one", "two"]) this.addConfiguration(name, { caBundle: generation.ca });
  }

  stored(): StoredCertificates {
    return parseCertificates(this.store.get("secrets", settings.secret));
  }

  /** What each webhook of a configuration trusts. */
  bundles(name: string): string[][] {
    const { webhooks = [] } = this.store.get(resource, { namespace: "", name }) as unknown as {
      webhooks?: { clientConfig: { caBundle?: string } }[];
    };
    return webhooks.map(({ clientConfig }) => splitPem(Buffer.from(clientConfig.caBundle ?? "", "base64").toString()));
  }

  /** Fails unless every configuration trusts what is presented now. */
  assertTrusted(): void {
    const { presented } = this.stored();
    for (const { metadata } of this.store.list(resource).items) {
      const trusting = this.bundles(metadata.name).every((bundle) => bundle.includes(presented?.ca ?? ""));
      assert.ok(trusting, `${metadata.name} does not trust what is presented`);
    }
  }

  passSeconds(seconds: number): void {
    this.timeline.runUntil(this.timeline.nowMs() + seconds * 1000);
  }

  /** A process: its memory is its own. */
  start(options: Partial<CertificateSettings> & { mode?: "act" | "shadow" } = {}) {
    const { mode = "act", ...rest } = options;
    const act = ({ action, object, result }: ActReport) => void this.acts.push(`${action} ${object} ${result}`);
    const problem = (_key: object, _by: string, sentence: string) => void this.problems.push(sentence);
    const reporter = { ...silentReporter, act, problem };
    return rotateCertificate.open({ cluster: this.#cluster(), reporter, mode }, { ...settings, ...rest });
  }

  #cluster(): Cluster {
    const { store, timeline } = this;
    const write = async <T>(what: string, make: () => T): Promise<T> => {
      this.onWrite("before", what);
      const made = make();
      this.writes.push(what);
      this.onWrite("after", what);
      return made;
    };
    const cluster: Pick<Cluster, "get" | "list" | "create" | "patch" | "serverTimeMs" | "monotonicMs"> = {
      get: async (of: Resource, key) => {
        await this.onRead(`get ${of}`);
        return store.get(of, key) as never;
      },
      list: async (of: Resource, query) => {
        await this.onRead(`list ${of}`);
        return store.list(of, query) as never;
      },
      create: (of: Resource, namespace, body) =>
        write(`create ${of}`, () => store.create(of, namespace, body)) as Promise<never>,
      patch: (of: Resource, key, body) =>
        write(`patch ${of} ${key.name}`, () => store.patch(of, key, body)) as Promise<never>,
      serverTimeMs: () => timeline.nowMs(),
      monotonicMs: () => timeline.nowMs(),
    };
    return cluster as Cluster;
  }
}
