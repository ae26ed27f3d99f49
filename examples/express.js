// A backend with Express that serves only callers with an identity from the gateway.
import express from 'express'
import { createVerifier, may } from 'sallyport/verify'

const verify = createVerifier({
  jwksUrl: process.env.SALLYPORT_JWKS ?? 'http://127.0.0.1:9090/.well-known/jwks.json',
  audience: 'platform',
})

const app = express()

app.use(async (request, response, next) => {
  try {
    request.identity = await verify(request)
    next()
  } catch (error) {
    // 401: the request did not come through the gateway. 503: no keys could be fetched.
    response.status(error.status).end()
  }
})

app.get('/datasets', (request, response) => {
  const { user, organization } = request.identity
  response.json({ user, organization, mayWrite: may(request.identity, 'datasets:write') })
})

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}`)
})
