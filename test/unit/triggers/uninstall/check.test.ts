/**
 * `--check-uninstall`: Sluice may be uninstalled only when the API server has answered that no object has a finalizer
 * of Sluice.
 */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  ClusterError,
  KindNotServedError,
  type OtherObject,
  type Resource,
} from "../../../../functions/shared/kubernetes/cluster.ts";
import { readSettings } from "../../../../triggers/settings/settings.ts";
import { groupFunctions, table } from "../../../../triggers/table.ts";
import { checkUninstall } from "../../../../triggers/uninstall/check.ts";

const [release, hold, protection] = ["release-prestop", "volume-hold", "volume-protection"].map(
  (name) => `sluice.dev/${name}`,
);

function object(name: string, ...finalizers: (string | undefined)[]): OtherObject {
  const ours = finalizers.filter((one) => one !== undefined);
  return { metadata: { name, namespace: "mimir", uid: name, resourceVersion: "1", finalizers: ours } };
}

type Lists = Partial<Record<Resource, readonly OtherObject[] | ClusterError>>;

/** What the API server has at a time, in milliseconds from the start. */
type Played = (nowMs: number) => Lists;

/** What a GET of a namespace answers at a time. */
type Namespaces = (name: string, nowMs: number) => object | ClusterError;

const isThere: Namespaces = () => ({ metadata: {} });

async function check(
  environment: Readonly<Record<string, string>>,
  played: Lists | Played,
  namespaceAt: Namespaces = isThere,
) {
  const { settings, mistakes } = readSettings({ NAMESPACE: "mimir", ...environment });
  assert.deepEqual(mistakes, []);
  let nowMs = 0;
  const asked = new Set<string>();
  const listsAt = typeof played === "function" ? played : () => played;
  const cluster = {
    monotonicMs: () => nowMs,
    async sleep(ms: number) {
      nowMs += ms;
    },
    async list(resource: Resource) {
      asked.add(resource);
      const found = listsAt(nowMs)[resource] ?? failed(404);
      if (found instanceof ClusterError) throw found;
      return { items: found, resourceVersion: "1" };
    },
    async get(resource: Resource, { name }: { readonly name: string }) {
      assert.equal(resource, "namespaces");
      const found = namespaceAt(name, nowMs);
      if (found instanceof ClusterError) throw found;
      return found;
    },
    async resourceOf(group: string, kind: string) {
      if (kind === "Missing") throw new KindNotServedError(group, kind);
      return { resource: `/apis/${group}/v1/${kind.toLowerCase()}s` };
    },
  };
  const namespaces = settings.namespaces as readonly string[];
  const options = { cluster: cluster as never, settings, namespaces, definitions: groupFunctions };
  const { mayGo, lines } = await checkUninstall(options);
  return { mayGo, lines, text: lines.join("\n"), tookMs: nowMs, asked: [...asked].sort() };
}

function failed(code: number, message = `HTTP ${code}`): ClusterError {
  return new ClusterError({ code, reason: "Because", message, verb: "list", resource: "persistentvolumeclaims" });
}

const nothing: Lists = { persistentvolumeclaims: [], statefulsets: [], rabbitmqclusters: [] };

suite("the check before an uninstall", () => {
  test("it permits the uninstall at once if no object has a finalizer of Sluice, whatever other finalizers there are", async () => {
    const claims = [object("data-db-0", "kubernetes.io/pvc-protection"), object("data-db-1")];
    const { mayGo, text, tookMs } = await check({}, { ...nothing, persistentvolumeclaims: claims });
    assert.deepEqual([mayGo, tookMs], [true, 0]);
    assert.equal(text, "no object of namespace mimir has a finalizer of Sluice");
  });

  test("it names each object with its finalizers and the setting that removes them", async () => {
    const lists = {
      persistentvolumeclaims: [object("data-db-0", "kubernetes.io/pvc-protection", hold, protection)],
      statefulsets: [object("db", release)],
      rabbitmqclusters: [object("orders", release)],
    };
    const { mayGo, lines, text, tookMs } = await check({}, lists);
    assert.deepEqual([mayGo, tookMs], [false, 0]);
    assert.match(text, /^3 objects have a finalizer of Sluice/);
    for (const expected of [
      "persistentvolumeclaims data-db-0 in mimir has sluice.dev/volume-hold, which VOLUME_HOLD=remove takes off; and sluice.dev/volume-protection, which VOLUME_HOLD=remove takes off",
      "statefulsets db in mimir has sluice.dev/release-prestop, which SKIP_LABEL_FINALIZER=remove takes off",
      "rabbitmqclusters orders in mimir has sluice.dev/release-prestop, which SKIP_LABEL_FINALIZER=remove takes off",
    ])
      assert.ok(lines.includes(expected), text);
    assert.match(
      lines.at(-1) ?? "",
      /set uninstall\.prepare=true in the chart, after `helm rollback` to the revision that is there, or /,
    );
    assert.match(lines.at(-1) ?? "", /VOLUME_HOLD=remove/);
    assert.match(lines.at(-1) ?? "", /SKIP_LABEL_FINALIZER=remove/);
  });

  test("it names twenty objects, and counts the others", async () => {
    const claims = Array.from({ length: 23 }, (_, index) => object(`data-db-${index}`, hold));
    const { lines } = await check({}, { ...nothing, persistentvolumeclaims: claims });
    assert.equal(lines.filter((line) => line.startsWith("persistentvolumeclaims data-db-")).length, 20);
    assert.match(lines[0] ?? "", /^23 objects have/);
    assert.ok(lines.includes("and 3 more"));
  });

  test("it lists what the served functions put finalizers on, or take them off, and no more", async () => {
    const asked = async (FUNCTION: string, more = {}) => (await check({ FUNCTION, ...more }, nothing)).asked;
    assert.deepEqual(await asked("advance-zone-rollout,keep-ledgers,release-namespace"), []);
    assert.deepEqual(await asked("suspend-group"), ["persistentvolumeclaims"]);
    assert.deepEqual(await asked("hold-process-groups"), ["persistentvolumeclaims"]);
    assert.deepEqual(await asked("mark-skip-label"), ["rabbitmqclusters", "statefulsets"]);
    const all = ["persistentvolumeclaims", "rabbitmqclusters", "statefulsets"];
    assert.deepEqual(await asked("suspend-group,release-namespace"), all);
    const kinds = { SKIP_LABEL_KINDS: "Broker.example.com,Missing.example.com" };
    assert.deepEqual(await asked("mark-skip-label", kinds), [
      "/apis/example.com/v1/brokers",
      "rabbitmqclusters",
      "statefulsets",
    ]);
  });

  test("it also reports a finalizer of a function that is not served, or that no function knows", async () => {
    const claims = [object("data-db-0", protection), object("data-db-1", "sluice.dev/of-tomorrow")];
    const settings = { FUNCTION: "suspend-group", VOLUME_HOLD: "remove" };
    const { mayGo, text, tookMs } = await check(settings, { persistentvolumeclaims: claims });
    assert.deepEqual([mayGo, tookMs], [false, 0]);
    assert.match(text, /volume-protection, which only hold-process-groups takes off, with VOLUME_HOLD=remove/);
    assert.match(text, /serve hold-process-groups as well, set uninstall\.prepare=true/);
    assert.match(text, /of-tomorrow, which this version of Sluice does not know/);
  });

  test("what a function left behind that is served no more is found where the account may list it", async () => {
    const settings = { FUNCTION: "suspend-group,release-namespace", VOLUME_HOLD: "remove" };
    const { mayGo, text } = await check(settings, { ...nothing, statefulsets: [object("db", release)] });
    assert.equal(mayGo, false);
    assert.match(
      text,
      /statefulsets db in mimir has .*, which only mark-skip-label takes off, with SKIP_LABEL_FINALIZER/,
    );
  });

  test("what is just being taken off is waited for, for two minutes", async () => {
    const settings = { VOLUME_HOLD: "remove", SKIP_LABEL_FINALIZER: "remove" };
    const gone = (afterMs: number) => (nowMs: number) => ({
      ...nothing,
      persistentvolumeclaims: nowMs < afterMs ? [object("data-db-0", hold)] : [],
    });
    const soon = await check(settings, gone(30_000));
    assert.deepEqual([soon.mayGo, soon.tookMs], [true, 30_000]);
    const never = await check(settings, gone(1e9));
    assert.deepEqual([never.mayGo, never.tookMs], [false, 120_000]);
    assert.match(
      never.text,
      /data-db-0 in mimir has .*, which goes because VOLUME_HOLD is remove\n.*Read its log, and try again/,
    );
    const kept = await check({ ...settings, VOLUME_HOLD: "keep" }, gone(30_000));
    assert.deepEqual([kept.mayGo, kept.tookMs], [false, 0]);
  });

  test("it waits for an unreachable API server, and concludes nothing from its silence", async () => {
    for (const code of [0, 401, 429, 500, 503]) {
      const away = (untilMs: number) => (nowMs: number) => ({
        ...nothing,
        persistentvolumeclaims: nowMs < untilMs ? failed(code, "it is away") : [],
      });
      const back = await check({}, away(60_000));
      assert.deepEqual([back.mayGo, back.tookMs], [true, 60_000], `${code}`);
      const never = await check({}, away(1e9));
      assert.deepEqual([never.mayGo, never.tookMs], [false, 120_000], `${code}`);
      assert.match(
        never.text,
        /^whether an object of namespace mimir has a finalizer of Sluice is not known: .*it is away/,
      );
    }
  });

  test("it names a missing right at once", async () => {
    const message = 'persistentvolumeclaims is forbidden: User "a" cannot list resource "persistentvolumeclaims"';
    const { mayGo, text, tookMs } = await check({}, { ...nothing, persistentvolumeclaims: failed(403, message) });
    assert.deepEqual([mayGo, tookMs], [false, 0]);
    assert.match(text, /is not known: Sluice lacks the right to list persistentvolumeclaims/);
  });

  const forbidden = failed(
    403,
    'persistentvolumeclaims is forbidden: User "a" cannot list resource "persistentvolumeclaims"',
  );
  const two = { NAMESPACE: "loki,mimir" };

  test("a namespace that is gone has no objects, though the right to list them went with it", async () => {
    const lists = { ...nothing, persistentvolumeclaims: forbidden };
    const { mayGo, text, tookMs } = await check(two, lists, () => failed(404));
    assert.deepEqual([mayGo, tookMs], [true, 0]);
    assert.equal(text, "no object of namespace loki, mimir has a finalizer of Sluice");
  });

  test("a namespace that is being deleted is waited for, and nothing is guessed from a right that went with it", async () => {
    const lists = { ...nothing, persistentvolumeclaims: forbidden };
    const ending = { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } };
    const goneAfter =
      (untilMs: number): Namespaces =>
      (_name, nowMs) =>
        nowMs < untilMs ? ending : failed(404);
    const gone = await check(two, lists, goneAfter(30_000));
    assert.deepEqual([gone.mayGo, gone.tookMs], [true, 30_000]);
    const stays = await check(two, lists, goneAfter(1e9));
    assert.deepEqual([stays.mayGo, stays.tookMs], [false, 120_000]);
    assert.match(
      stays.text,
      /is not known: namespace loki is being deleted, and Sluice's right to list persistentvolumeclaims .* `outside`/,
    );
  });

  test("nothing is guessed while a namespace cannot be read either", async () => {
    const lists = { ...nothing, persistentvolumeclaims: forbidden };
    const refused = await check(two, lists, () => failed(403, 'namespaces is forbidden: User "a" cannot get resource'));
    assert.deepEqual([refused.mayGo, refused.tookMs], [false, 0]);
    const back = await check(two, lists, (_name, nowMs) => failed(nowMs < 10_000 ? 503 : 404));
    assert.deepEqual([back.mayGo, back.tookMs], [true, 10_000]);
  });
});

test("each finalizer that a function may write has a function that declares how to remove it", () => {
  const written = table.flatMap(({ needs, kindNeeds = [] }) =>
    [...needs, ...kindNeeds].flatMap(({ changes = [] }) =>
      changes.flatMap((path) => /^metadata\.finalizers\[(.*)\]$/.exec(path)?.[1] ?? []),
    ),
  );
  const ends = table.flatMap(({ finalizers = [] }) => finalizers.map(({ name }) => name));
  assert.deepEqual([...new Set(written)].sort(), [...new Set(ends)].sort());
  assert.deepEqual([...new Set(ends)].sort(), [release, hold, protection]);
});

test("each function with a setting that removes finalizers declares which ones", () => {
  for (const { name, settings = {}, finalizers = [] } of table) {
    const removing = Object.values(settings).filter(({ grammar }) => grammar === "keep or remove");
    assert.deepEqual([...new Set(finalizers.map(({ setting }) => setting))], removing, name);
  }
});
