/** Other accounts have Sluice do nothing that they may not do themselves: account by account and word by word. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { annotationTable } from "../../functions/shared/annotations/table.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { isWorkload } from "../support/installed.ts";
import { type Built, isDefinition, Kubectl } from "../support/kubectl.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import {
  type Account,
  accounts,
  bindings,
  bodyOf,
  furnish,
  labelled,
  lookalikes,
  namespace,
  pathOf,
  type Reach,
  rights,
  withWord,
} from "./guard-place.ts";
import { besides, finalizers, type Kind, type Rule, rules } from "./guard-rights.ts";

interface Write {
  readonly what: string;
  readonly needs: Reach;
  readonly rule: Rule;
  readonly method: "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: object;
}

type Outcome = "yes" | "role" | "guard" | "fence";

/** All policies are read by the API server within seconds; the machine may be busy. */
const readWithinMs = 60_000;
const kinds: readonly Kind[] = ["claim", "rabbitmqcluster", "foundationdbcluster"];
const kept = "kubernetes.io/pvc-protection";
const ourAccount = `system:serviceaccount:${namespace}:sluice`;

function patch(kind: Kind, what: string, rule: Rule, name: string, metadata: object): Write {
  return { what, needs: `patch ${kind}`, rule, method: "PATCH", path: pathOf(kind, name), body: { metadata } };
}

function create(kind: Kind, what: string, rule: Rule, metadata: object): Write {
  const body = bodyOf(kind, "new", metadata);
  return { what, needs: `create ${kind}`, rule, method: "POST", path: pathOf(kind), body };
}

/** Each word of a kind: added, changed and removed by a merge patch, and there from the beginning. */
function writesOf(kind: Kind): readonly (readonly [string, readonly Write[]])[] {
  const rulesOf = Object.entries({ ...rules, ...besides }).flatMap(([key, { [kind]: rule }]) => {
    if (rule === undefined) return [];
    const [saves, ends] = rule === "save" ? (["free", "delete"] as const) : [rule, rule];
    const writes = [
      patch(kind, "added", saves, "bare", withWord(key, "true")),
      patch(kind, "changed", ends, "worded", withWord(key, "false")),
      patch(kind, "removed", ends, "worded", withWord(key, null)),
      create(kind, "created", saves, withWord(key, "true")),
    ];
    return [[key, writes] as const];
  });
  if (kind !== "claim") return rulesOf;
  const blocked = finalizers.map((name) => {
    const others = finalizers.filter((other) => other !== name);
    const writes = [
      patch(kind, "added", "finalizer", "bare", { finalizers: [kept, name] }),
      patch(kind, "removed", "finalizer", "worded", { finalizers: [kept, ...others] }),
      create(kind, "created", "finalizer", { finalizers: [name] }),
    ];
    return [name, writes] as const;
  });
  return [...rulesOf, ...blocked];
}

const mark = { labels: { "app.kubernetes.io/managed-by": "sluice" } };
const groupOf = (group: string | null) => ({ annotations: { "sluice.dev/group": group } });
function lease(what: string, rule: Rule, verb: "create" | "patch" | "delete", name: string, metadata: object): Write {
  const method = ({ create: "POST", patch: "PATCH", delete: "DELETE" } as const)[verb];
  const path = pathOf("lease", verb === "create" ? undefined : name);
  const body = { create: { body: bodyOf("lease", name, metadata) }, patch: { body: { metadata } }, delete: {} }[verb];
  return { what, needs: `${verb} lease`, rule, method, path, ...body };
}

const leases: readonly (readonly [string, readonly Write[]])[] = [
  lease("a ledger is made", "edit", "create", "sluice-new", { ...mark, ...groupOf("new") }),
  lease("its name is taken", "edit", "create", "sluice-new", {}),
  lease("one of another name is made with the label", "edit", "create", "new", mark),
  lease("one of another name is made with the group", "edit", "create", "new", groupOf("db")),
  lease("one that is none is made", "free", "create", "new", {}),
  lease("a reservation is forged", "edit", "patch", "sluice-db", { annotations: { "sluice.dev/reservations": "{}" } }),
  lease("a ledger loses what marks it", "edit", "patch", "sluice-db", { labels: null, annotations: null }),
  lease("one of that name gets the group", "edit", "patch", "sluice-bare", groupOf("bare")),
  lease("one of another name loses the label and the group", "edit", "patch", "marked", {
    labels: null,
    annotations: null,
  }),
  lease("another one gets the label", "edit", "patch", "leader", mark),
  lease("another one gets the group", "edit", "patch", "leader", groupOf("db")),
  lease("another one gets a note", "free", "patch", "leader", { annotations: { "example.com/note": "true" } }),
  lease("a ledger is deleted", "edit", "delete", "sluice-db", {}),
  lease("another one is deleted", "free", "delete", "leader", {}),
].map((write) => [write.what, [{ ...write, what: "" }]] as const);

/** What is expected by the table of words, and by what the account may do. */
function expected({ reaches, satisfies, name }: Account, { needs, rule }: Write): Outcome {
  if (!reaches.includes(needs)) return "role";
  const isCollecting = needs === "delete lease" && ["collector", "namespaces"].includes(name);
  return isCollecting || satisfies.includes(rule) ? "yes" : "guard";
}

suite("the guard on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let administrator: Api;
  let kubectl: Kubectl;

  /** Nothing is stored: admission and rights are the same for a dry run. Without a user, the administrator writes. */
  async function ask(user: string | undefined, { method, path, body }: Pick<Write, "method" | "path" | "body">) {
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const url = `${path}?dryRun=All`;
    const impersonated = user === undefined ? {} : { "impersonate-user": user };
    const answer = await administrator.send(method, url, body, type, impersonated);
    return { status: answer.statusCode, text: await answer.body.text() };
  }

  async function outcomeOf(user: string, write: Write): Promise<Outcome> {
    const { status, text } = await ask(user, write);
    if (status < 300) return "yes";
    if (/sluice-guard-/.test(text) && status === 403) return "guard";
    if (/sluice-fence-/.test(text) && status === 422) return "fence";
    if (status === 403 && /is forbidden: User/.test(text)) return "role";
    throw new Error(`${user}: ${write.what}: ${status} ${text}`);
  }

  before(async () => {
    controlPlane = await startControlPlane();
    administrator = await Api.open(controlPlane, { userAgent: "sluice-test-administrator" });
    kubectl = await Kubectl.open(controlPlane);
    await kubectl.run("apply", "-k", join(import.meta.dirname, "../fixtures/crds"));
    await kubectl.apply(await kubectl.build("base/crds"));
    await kubectl.waitForDefinitions();
    await kubectl.run("create", "namespace", namespace);
    const objects = await kubectl.buildIn(namespace, "standalone");
    const policies = (one: Built) => !isWorkload(one) && !isDefinition(one) && !/WebhookConfiguration$/.test(one.kind);
    await kubectl.apply([...objects.filter(policies), ...rights, ...bindings]);
    await furnish(administrator);
    const refused = [writesOf("claim"), writesOf("rabbitmqcluster"), writesOf("foundationdbcluster"), leases].map(
      (rows) => rows.flatMap(([, writes]) => writes).find(({ rule }) => rule !== "free"),
    );
    const users = ["narrow-claims", "narrow-rabbit", "narrow-fdb", "narrow-leases"];
    for (const [index, write] of refused.entries()) {
      const isRead = async () => (await outcomeOf(users[index] ?? "", write as Write)) === "guard" || undefined;
      await eventually("the policies read", readWithinMs, isRead);
    }
  });
  after(async () => {
    await kubectl?.close();
    await administrator?.close();
    await controlPlane?.stop();
  });

  test("every word of ours has a rule, written down by hand", () => {
    const keys = annotationTable.map(({ key }) => key).filter((key) => key.startsWith("sluice.dev/"));
    assert.deepEqual([...keys].sort(), Object.keys(rules).sort());
    const labels = annotationTable.filter(({ kind, on }) => kind === "label" && on === "PersistentVolumeClaim");
    const ours = labels.map(({ key }) => key).filter((key) => key.startsWith("sluice.dev/"));
    assert.deepEqual([...ours].sort(), [...labelled].sort());
  });

  for (const [kind, rows] of [...kinds.map((one) => [one, writesOf(one)] as const), ["lease", leases] as const]) {
    test(`each account writes what its own rights allow, and no other word, on a ${kind}`, async (context) => {
      const failures: string[] = [];
      const width = Math.max(...rows.map(([word]) => word.length));
      const lines = [[" ".repeat(width), ...accounts.map(({ name }) => name)].join("  ")];
      for (const [word, writes] of rows) {
        const cells: string[] = [];
        for (const account of accounts) {
          const outcomes: Outcome[] = [];
          for (const write of writes) {
            const outcome = await outcomeOf(account.user, write);
            const wanted = expected(account, write);
            const isRight = outcome === wanted || (account.isFree && outcome === "fence");
            if (!isRight)
              failures.push(`${account.name}: ${[word, write.what].join(" ").trim()}: ${outcome}, not ${wanted}`);
            outcomes.push(outcome);
          }
          cells.push([...new Set(outcomes)].join("/").padEnd(account.name.length));
        }
        lines.push([word.padEnd(width), ...cells].join("  "));
      }
      context.diagnostic(lines.join("\n"));
      assert.deepEqual(failures, []);
    });
  }

  test("words come no other way: not by the status of a volume claim, nor from an account with a name like ours", async () => {
    const status = `${pathOf("claim", "bare")}/status`;
    const word = { method: "PATCH", path: status, body: { metadata: withWord("sluice.dev/suspend", "true") } } as const;
    const note = { ...word, body: { metadata: withWord("example.com/note", "true") } };
    const stored = JSON.parse((await ask("an-administrator", word)).text) as Built;
    assert.match(JSON.stringify(stored.metadata), /"sluice.dev\/suspend":"true"/);
    assert.match((await ask("narrow-status", word)).text, /sluice-guard-claims/);
    assert.equal((await ask("narrow-status", note)).status, 200);
    for (const user of lookalikes)
      assert.match((await ask(user, { ...word, path: pathOf("claim", "bare") })).text, /sluice-guard-claims/, user);
  });

  test("a refusal names the words, and what the account needs", async () => {
    const metadata = {
      annotations: { "sluice.dev/suspend": "true", "sluice.dev/hold": "true", "sluice.dev/zone": "a" },
    };
    const answerTo = async (body: object) =>
      (await ask("narrow-claims", { method: "PATCH", path: pathOf("claim", "bare"), body })).text;
    assert.match(
      await answerTo({ metadata }),
      /sluice.dev\/suspend, sluice.dev\/zone: Sluice may .* needs the verb delete on/,
    );
    const state = { metadata: withWord("sluice.dev/suspended", "true") };
    assert.match(
      await answerTo(state),
      /sluice.dev\/suspended: only Sluice writes this; .* the verb repair on words.sluice.dev/,
    );
  });

  /** How often the conditions of a policy have left out a write: the API server notes the time of those alone. */
  async function leftOut(policy: string): Promise<number> {
    const answer = await administrator.send("GET", "/metrics");
    const isCount = (line: string) =>
      line.startsWith("apiserver_admission_match_condition_evaluation_seconds_count") &&
      line.includes(`"sluice-guard-${policy}.${namespace}"`);
    const lines = (await answer.body.text()).split("\n").filter(isCount);
    return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }

  test("a write that changes no word of ours is left out before it is decided, as each write of our accounts is", async () => {
    const isDenied = async (policy: string, user: string, path: string, metadata: object) => {
      const before = await leftOut(policy);
      await ask(user, { method: "PATCH", path, body: { metadata } });
      return (await leftOut(policy)) === before;
    };
    const [note, word, stop] = ["example.com/note", "sluice.dev/suspend", "sluice.dev/stop-all"].map((key) =>
      withWord(key, "other"),
    ) as [object, object, object];
    const [claim, cluster, ledger] = [pathOf("claim", "worded"), pathOf("rabbitmqcluster", "worded"), "sluice-db"];
    assert.equal(await isDenied("claims", "narrow-claims", claim, note), false);
    assert.equal(await isDenied("claims", "narrow-claims", claim, word), true);
    assert.equal(await isDenied("claims", ourAccount, claim, word), false);
    assert.equal(await isDenied("owners", "narrow-rabbit", cluster, note), false);
    assert.equal(await isDenied("owners", "narrow-rabbit", cluster, stop), true);
    assert.equal(await isDenied("ledgers", "narrow-leases", pathOf("lease", "leader"), note), false);
    assert.equal(await isDenied("ledgers", "narrow-leases", pathOf("lease", ledger), note), true);
    assert.equal(await isDenied("ledgers", ourAccount, pathOf("lease", ledger), note), false);
  });

  test("the StatefulSet controller writes on a claim that has our words, and may not change them", async () => {
    const user = "system:serviceaccount:kube-system:statefulset-controller";
    const path = pathOf("claim", "worded");
    const claim = await administrator.get<{ metadata: { annotations: Readonly<Record<string, string>> } }>(path);
    const owner = { apiVersion: "apps/v1", kind: "StatefulSet", name: "db", uid: crypto.randomUUID() };
    const put = (metadata: object) =>
      ask(user, { method: "PUT", path, body: { ...claim, metadata: { ...claim.metadata, ...metadata } } });
    assert.equal((await put({ ownerReferences: [owner] })).status, 200);
    const annotations = { ...claim.metadata.annotations, "sluice.dev/suspend-state": "Removing" };
    assert.match((await put({ annotations })).text, /sluice-guard-claims/);
  });

  test("50,000 annotations of a volume claim neither slow the guard down nor end it", async () => {
    const some = Array.from({ length: 50_000 }, (_, at) => [`a${at.toString(36)}`, ""] as const);
    const unguarded = (path: string) => path.replace(`/${namespace}/`, "/default/");
    const path = pathOf("claim", "full");
    for (const collection of [pathOf("claim"), unguarded(pathOf("claim"))])
      await administrator.post(collection, bodyOf("claim", "full", { annotations: Object.fromEntries(some) }));
    const timed = async (user: string | undefined, at: string) => {
      const from = performance.now();
      const body = { metadata: withWord("sluice.dev/suspend", "true") };
      const { status } = await ask(user, { method: "PATCH", path: at, body });
      return { status, ms: performance.now() - from };
    };
    const plain = await timed(undefined, unguarded(path));
    const guarded = await timed("an-administrator", path);
    const refused = await timed("narrow-claims", path);
    assert.deepEqual([plain.status, guarded.status, refused.status], [200, 200, 403]);
    for (const { ms } of [guarded, refused]) assert.ok(ms < 5_000 + 3 * plain.ms, `${ms} ms, ${plain.ms} without it`);
  });
});
