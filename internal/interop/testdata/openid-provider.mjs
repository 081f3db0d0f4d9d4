// A certified OpenID provider, as the sign-in of the pages meets it: node-oidc-provider with its own pages for signing in.
// Whoever signs in there has the address NAME@example.com, which is verified unless the name begins with "new-".
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const [modules, issuer, redirect, secret, ahead] = process.argv.slice(2);

// The clock of the test may not be the machine's, and what one signs here is valid for minutes.
const MachineDate = Date;
globalThis.Date = class extends MachineDate {
  constructor(...of) {
    super(...(of.length ? of : [Date.now()]));
  }
  static now() {
    return MachineDate.now() + Number(ahead);
  }
};

const { Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`));

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'countersign', client_secret: secret, redirect_uris: [redirect],
    response_types: ['code'], grant_types: ['authorization_code'],
  }],
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: !id.startsWith('new-') }),
  }),
  pkce: { required: () => true },
  cookies: { keys: ['of these tests'] },
  features: { devInteractions: { enabled: true } },
});
createServer(provider.callback()).listen(new URL(issuer).port, '127.0.0.1');
