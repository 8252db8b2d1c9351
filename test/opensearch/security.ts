/**
 * TLS and passwords of nodes by OpenSearch's own plugin: its files, certificates of an authority of the test, and a client that
 * trusts them. A node without TLS has the plugin as well, which is switched off in its settings.
 */
import { chmod, cp, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Agent } from "undici";
import { type Authority, createAuthority, type IssuedPair } from "../support/certificates.ts";
import { securityPlugin } from "./program.ts";

/** The user of the plugin's own examples. */
export const user = { username: "admin", password: "admin" };

const plugin = "opensearch-security";
const pems = ["pemcert_filepath: node.crt", "pemkey_filepath: node.key", "pemtrustedcas_filepath: ca.crt"];

/** Lines of `opensearch.yml`. */
export const withoutTls: readonly string[] = ["plugins.security.disabled: true"];
export const withTls: readonly string[] = [
  ...pems.map((line) => `plugins.security.ssl.transport.${line}`),
  // The addresses of nodes are in no certificate.
  "plugins.security.ssl.transport.enforce_hostname_verification: false",
  "plugins.security.ssl.http.enabled: true",
  ...pems.map((line) => `plugins.security.ssl.http.${line}`),
  'plugins.security.nodes_dn: ["CN=sluice-test"]',
  "plugins.security.allow_default_init_securityindex: true",
];

export class Security {
  /** In PEM. */
  readonly authority: string;
  readonly authorization = `Basic ${Buffer.from(`${user.username}:${user.password}`).toString("base64")}`;
  /** Trusts the certificate of a node at whatever address. */
  readonly agent: Agent;
  readonly #pair: IssuedPair;

  private constructor({ cert }: Authority, pair: IssuedPair) {
    this.authority = cert;
    this.#pair = pair;
    this.agent = new Agent({ connect: { ca: cert, servername: "localhost" } });
  }

  /** Issues a certificate for these DNS names. */
  static async make(names: readonly string[]): Promise<Security> {
    const authority = await createAuthority();
    return new Security(authority, await authority.issue(...names));
  }

  /** Puts the plugin into a folder of OpenSearch, which has been copied from this one. */
  static install(from: string, home: string): Promise<void> {
    return cp(join(from, securityPlugin), join(home, "plugins", plugin), { recursive: true });
  }

  /** Writes what a node needs into its folder of settings. */
  async configure(home: string, config: string): Promise<void> {
    await mkdir(join(config, plugin));
    await cp(join(home, "plugins", plugin, "config"), join(config, plugin), { recursive: true });
    const { cert, key } = this.#pair;
    for (const [name, text] of Object.entries({ "node.crt": cert, "node.key": key, "ca.crt": this.authority })) {
      await writeFile(join(config, name), text);
      await chmod(join(config, name), 0o644);
    }
  }

  close(): Promise<void> {
    return this.agent.close();
  }
}
