/** What the swap by Helm hands to users: values files that say what they must, and commands that know no name of another tool. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { load } from "js-yaml";
import { operatorName } from "../../functions/shared/standby/decide-other-operator.ts";
import { alwaysServed, presets } from "../../triggers/table.ts";

const knative = join(import.meta.dirname, "../../knative");
const document = readFileSync(join(knative, "from-rollout-operator.md"), "utf8");
const served = [...(presets["rollout-operator"] ?? []), ...alwaysServed].map(({ name }) => name);

/** Objects of the operator that Helm calls after the release, each by kind and name. */
const named = /\b(?:deployments?|deploy|serviceaccounts?|sa|roles?|rolebindings?)[ /](?:\S+-)?rollout-operator(?=\s|$)/;

/** The lines of the document that a user types. */
function commands(): string[] {
  const blocks = [...document.matchAll(/```sh\n([^`]*)```/g)];
  return blocks.flatMap(([, block = ""]) => block.trim().split("\n"));
}

test("no command names an object that Helm names after its release", () => {
  const lines = commands();
  assert.ok(lines.length > 30, `${lines.length} lines`);
  assert.deepEqual(
    lines.filter((line) => named.test(line)),
    [],
  );
  assert.match("kubectl -n mimir scale deployment rollout-operator --replicas 0", named);
  assert.match("kubectl rollout status deployment/prod-rollout-operator", named);
  assert.doesNotMatch("kubectl rollout status deployment -l app.kubernetes.io/name=rollout-operator", named);
});

test("the document names each values file, and each file that it names exists", () => {
  const files = globSync("*.yaml", { cwd: join(knative, "examples/swap") });
  const mentioned = new Set([...document.matchAll(/examples\/swap\/([a-z]+\.yaml)/g)].map(([, file]) => file));
  assert.deepEqual([...mentioned].sort(), files.sort());
});

for (const file of ["loki", "tempo"])
  test(`${file}.yaml serves what the Role of the account has rights for, and Sluice does not take its own image for the operator`, () => {
    const { rollout_operator: values } = load(readFileSync(join(knative, `examples/swap/${file}.yaml`), "utf8")) as {
      rollout_operator: {
        image: { repository: string };
        serviceAccount: { name: string };
        extraEnv: readonly { name: string; value: string }[];
      };
    };
    const functions = values.extraEnv.find(({ name }) => name === "FUNCTION")?.value ?? "";
    assert.equal(functions, served.join(","));
    assert.ok(document.includes(`\n${functions}\n`), "the document has another list");
    assert.notEqual(values.image.repository.split("/").at(-1), operatorName);
    assert.ok(
      document.includes(`value: { kind: ServiceAccount, name: ${values.serviceAccount.name}, namespace: mimir }`),
    );
  });
