/** What pods are asked with: the user and the password of a Secret. A Role of the user's lets Sluice read it by its name. */
import {
  type Cluster,
  ClusterError,
  isRightMissing,
  type ObjectKey,
  type SecretObject,
  wordsOf,
} from "../kubernetes/cluster.ts";

/** The Secret cannot be read, or has not what is needed. */
export class NoPassword extends Error {}

/** The header that a Secret's user and password make. Throws {@link NoPassword}. */
export async function readPassword(cluster: Pick<Cluster, "get">, key: ObjectKey): Promise<string> {
  let data: SecretObject["data"];
  try {
    ({ data } = await cluster.get("secrets", key));
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    const grant = "; a Role must give Sluice the right to get it by its name";
    throw new NoPassword(
      `Secret ${key.name} could not be read: ${wordsOf(error)}${isRightMissing(error) ? grant : ""}`,
    );
  }
  const decoded = (field: string) => Buffer.from(data?.[field] ?? "", "base64").toString("utf8");
  const [username, password] = [decoded("username"), decoded("password")];
  if (username === "" || password === "") throw new NoPassword(`Secret ${key.name} has no username and password`);
  if (username.includes(":"))
    throw new NoPassword(`the username in Secret ${key.name} has a colon, which no header can say`);
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}
