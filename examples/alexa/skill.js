// What all functions of the assistant share: calling another one by its name.
const http = require('node:http');

exports.call = (name, payload) => new Promise((resolve, reject) => {
  const host = `${name}.${process.env.FN_NAMESPACE}.fn.cluster.local`;
  const body = JSON.stringify(payload);
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  const request = http.request({ host, port: process.env.ROUTER_PORT || 80, method: 'POST', path: '/', headers }, (answer) => {
    let text = '';
    answer.on('data', (piece) => { text += piece; });
    answer.on('end', () => {
      const value = JSON.parse(text);
      if (answer.statusCode === 200) resolve(value);
      else reject(new Error(`${name}: ${value.errorMessage}`));
    });
  });
  request.on('error', reject);
  request.end(body);
});
