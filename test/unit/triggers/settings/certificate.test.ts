/** In which Secret the self-signed certificate is, and for which name it is issued. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { certificateOf } from "../../../../triggers/settings/certificate.ts";
import { readSettings } from "../../../../triggers/settings/settings.ts";

const { settings } = readSettings({});
const inPod = { namespace: "sluice-system", isInPod: true };
const onMachine = { namespace: "of-context", isInPod: false };

test("in a pod the Secret is in the pod's own namespace, whichever namespaces are served", () => {
  for (const served of [["sluice-system"], ["mimir"], ["mimir", "loki"], undefined]) {
    const { secret, dnsName, namespaces } = certificateOf(settings, served, inPod);
    assert.deepEqual(secret, { namespace: "sluice-system", name: "rollout-operator-self-signed-certificate" });
    assert.equal(dnsName, "rollout-operator.sluice-system.svc");
    assert.deepEqual(namespaces, served ?? ["sluice-system"]);
  }
});

test("outside of pods the Secret is in the one served namespace, or otherwise in that of the kubeconfig's context", () => {
  const placeOf = (served: readonly string[] | undefined) =>
    certificateOf(settings, served, onMachine).secret.namespace;
  assert.deepEqual([["mimir"], ["mimir", "loki"], undefined].map(placeOf), ["mimir", "of-context", "of-context"]);
});

test("a name that the user sets replaces the name of the Service", () => {
  const { settings: given } = readSettings({ TLS_DNS_NAME: "sluice.example.com" });
  assert.equal(certificateOf(given, ["mimir"], inPod).dnsName, "sluice.example.com");
});
