/** The kubeconfig of an API server that a test has. JSON is YAML too. `authority`: what says whom to trust of it. */
export function kubeconfigText(server: string, user: object, namespace?: string, authority: object = {}): string {
  const name = "test";
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server, ...authority } }],
    users: [{ name, user }],
    contexts: [{ name, context: { cluster: name, user: name, namespace } }],
    "current-context": name,
  });
}
